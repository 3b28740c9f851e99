//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package main

import "syscall"

// adopts: orphans become init's children here, and are found by their group only.
const adopts = false

func adopt() {}

// ownGroup starts the command in a group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func descendants(map[int]bool) []int { return nil }

func halt(map[int]bool) []int { return nil }

func orphans(int, map[int]bool) []int { return nil }
