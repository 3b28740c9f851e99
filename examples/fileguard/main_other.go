//go:build !unix

// Fileguard needs flock, and a rename that replaces its target in one step.
package main

func main() { println("fileguard runs on Unix systems only") }
