package redlock

// Cluster is the nodes' side of a Locker: who may vote, and whether the servers
// are set up for it. It has no state of its own, and is safe for use by many
// goroutines at once.
type Cluster struct {
	locker *Locker
}

// Cluster returns the nodes' side. It sends nothing.
func (l *Locker) Cluster() *Cluster { return &Cluster{locker: l} }
