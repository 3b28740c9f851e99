package revocation

// What the search puts into states, and takes out of them.

// Made is a request that has come so far.
func Made(asked []string, ending Action) *Request {
	return &Request{asked: asked, ending: ending}
}

// State is how far a request has come.
func (r *Request) State() (asked []string, ending Action) {
	return r.asked, r.ending
}
