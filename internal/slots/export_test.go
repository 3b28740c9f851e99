package slots

// Called tells the searches whether a call has come since it asked last.
func (c *Caller) Called() bool { return c.called }
