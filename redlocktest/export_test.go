package redlocktest

// Found makes a cluster of nodes that were started WithoutFounding.
func Found(c *Cluster) error { return c.found() }
