package chaos

import (
	"slices"

	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
)

// realLink is the way of one client to one node: a proxy.
type realLink struct {
	proxy *tcpproxy.Proxy
	home  *realNode // that the client's list has in this place

	// Guarded by realStage.mu.
	faults linkFaults
	leads  *realNode // to which node: home, unless the list is another one

	refuses bool // new connections, by a fault; guarded by the mutex of the node that it leads to
}

// change begins a fault, or mends it; others stand. nodes are the stage's.
func (l *realLink) change(f Fault, broken bool, nodes []*realNode) error {
	switch {
	case !f.Kind.Lasts() && !broken:
		return nil
	case f.Kind == Reset:
		l.proxy.Reset()
		return nil
	case f.Kind == HalfOpen:
		l.proxy.HalfOpen()
		return nil
	}
	l.faults.change(f, broken)
	is := l.faults.condition(slices.Index(nodes, l.home))
	refuses, leads := is.Refuses, nodes[is.Leads]
	l.proxy.Set(is.Requests, is.Replies)
	if leads == l.leads {
		return l.leads.lets(l, !refuses)
	}
	l.leads.dismiss(l)
	l.leads = leads
	err := l.leads.lets(l, !refuses)
	l.proxy.Reset()
	return err
}

// lets lets new connections of a link in, which is the node's from here on if it
// was not, or does not. While the process is down nobody is let in.
func (n *realNode) lets(l *realLink, in bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.refuses = !in
	if !slices.Contains(n.links, l) {
		n.links = append(n.links, l)
	}
	return n.open(l)
}

// dismiss ends that a link leads to the node.
func (n *realNode) dismiss(l *realLink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = slices.DeleteFunc(n.links, func(other *realLink) bool { return other == l })
}

// open has a link take new connections, or refuse them, as it is; n.mu is held.
func (n *realNode) open(l *realLink) error {
	l.proxy.Tap(n.answered)
	if n.downs > 0 || l.refuses {
		l.proxy.Aim(n.server.Addr())
		l.proxy.Refuse()
		return nil
	}
	return l.proxy.Admit(n.server.Addr())
}
