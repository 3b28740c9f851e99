package queue

// Listen has the nodes call this process from now on, though nobody in it waits: they may
// pass on that a hold is asked for. It does not block until they do. Nothing else is sent
// to them for it: signs of life are for who waits. What it opens stays open until Close,
// as after a wait.
func (w *Presence) Listen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open()
}

// asked tells whether a message asks for a hold that there is, which has been told then.
func (w *Presence) asked(message string) bool {
	return w.cfg.Asked != nil && w.cfg.Asked(message)
}
