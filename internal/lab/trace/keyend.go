package trace

// keyEnd takes in one who shares a key that a node shows: those of one key are together.
func (t *trial) keyEnd(r Record) {
	if len(t.shares) > 0 {
		if one := t.shares[0]; !r.Shared || r.Node != one.Node || r.Resource != one.Resource || r.At != one.At {
			t.keysEnd()
		}
	}
	if r.Shared {
		t.shares = append(t.shares, r)
	}
}

// keysEnd judges the shared key that was shown last: it ends with the last who shares it.
func (t *trial) keysEnd() {
	if len(t.shares) == 0 {
		return
	}
	last := t.shares[0]
	for _, r := range t.shares {
		if r.Until > last.Until {
			last = r
		}
	}
	if last.Ends != last.Until {
		t.found(KeyEnd, last.At, last.Resource, "%s has the key end at %v, and the last who shares it, %s, at %v",
			last.Node, last.Ends, last.Owner, last.Until)
	}
	t.shares = t.shares[:0]
}
