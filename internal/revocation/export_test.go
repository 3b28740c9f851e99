package revocation

// What the search puts into states, and takes out of them.

// Made is a request that has come so far.
func Made(asked []string, ending Action, refused []string) *Request {
	return &Request{asked: asked, ending: ending, refused: refused}
}

// State is how far a request has come.
func (r *Request) State() (asked []string, ending Action, refused []string) {
	return r.asked, r.ending, r.refused
}
