package membership

// Known is node i's right to vote by what was seen last, or why it has none; answered
// tells whether it answered then. Changed is closed by the next publication.
func (t *Tracker) Known(i int) (st Voter, answered bool, changed <-chan struct{}, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.view()
	st, reason := v.Voter(i)
	return st, v.Nodes[i].Answered, t.changed, t.abstention(v, i, reason)
}
