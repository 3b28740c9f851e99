package contenders

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// family is a process and all its descendants, by /proc; the process alone where there
// is none.
func family(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		stat, err := os.ReadFile(name) //nolint:gosec // of /proc
		if err != nil {
			continue // gone
		}
		own, err1 := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // behind a name that may have anything in it
		if err1 != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], own)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// memoryOf is what the nodes' processes have in memory, in bytes: their proportional
// set size, so that what they share counts once. 0 where the system does not tell.
func memoryOf(nodes []node) int64 {
	var total int64
	for _, n := range nodes {
		for _, pid := range n.pids() {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(text)) {
				var kilobytes int64
				if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kilobytes); n == 1 {
					total += kilobytes << 10
				}
			}
		}
	}
	return total
}
