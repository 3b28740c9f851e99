//go:build !unix

package main

// It needs flock, and a rename that replaces its target in one step.
func main() { println("fileguard runs on Unix systems only") }
