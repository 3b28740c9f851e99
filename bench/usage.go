package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticks is USER_HZ, which Linux has fixed at 100 for what it tells programs.
const ticks = 100

// usage is who has used how much of the processors, since some beginning.
type usage struct {
	at      time.Time
	self    time.Duration // this process and its ended children
	servers time.Duration // all masters together
	each    []time.Duration
	machine time.Duration // everything that ran; 0 where /proc/stat is missing
}

// readUsage reads the counters of now. Masters that do not answer are left out:
// do not call it while one is stopped.
func readUsage(ctx context.Context, c cluster) (usage, error) {
	u := usage{at: time.Now(), self: ownCPU(), machine: machineCPU()}
	for _, s := range c {
		fields, err := s.info(ctx, "cpu")
		if err != nil {
			return u, err
		}
		var d time.Duration
		for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
			sec, err := strconv.ParseFloat(fields[name], 64)
			if err != nil {
				return u, fmt.Errorf("INFO cpu of %s: %w", s.Addr(), err)
			}
			d += time.Duration(sec * float64(time.Second))
		}
		u.servers += d
		u.each = append(u.each, d)
	}
	return u, nil
}

// ownCPU is what this process and its ended children have used.
func ownCPU() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err == nil {
			total += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return total
}

// machineCPU is what all processes have used, steal included: it is lost to us
// all the same.
func machineCPU() time.Duration {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) < 9 {
		return 0
	}
	var total int64
	for i, word := range fields[1:9] { // user nice system idle iowait irq softirq steal
		const idle, iowait = 3, 4
		if n, err := strconv.ParseInt(word, 10, 64); err == nil && i != idle && i != iowait {
			total += n
		}
	}
	return time.Duration(total) * time.Second / ticks
}

// load is the mean number of processors in use between two readings.
type load struct {
	Self    float64 `json:"client"`
	Servers float64 `json:"servers"`
	Others  float64 `json:"others"`
	Cores   int     `json:"cores"`
}

func (u usage) since(v usage) load {
	wall := float64(u.at.Sub(v.at))
	l := load{Self: float64(u.self-v.self) / wall, Servers: float64(u.servers-v.servers) / wall, Cores: runtime.NumCPU()}
	l.Others = max(float64(u.machine-v.machine)/wall-l.Self-l.Servers, 0)
	return l
}

// quiet tells whether nobody else used much of the machine: below a tenth of a
// core, two readings of the same thing agree within a few per cent.
func (l load) quiet() bool { return l.Others < 0.1 }

func (l load) String() string {
	return fmt.Sprintf("of %d cores the client used %.2f, the servers %.2f, everything else %.2f",
		l.Cores, l.Self, l.Servers, l.Others)
}

// commandTime is the time that the first n servers have spent in the named
// commands, and how often they ran. What scripts call is inside theirs.
func commandTime(ctx context.Context, c cluster, commands []string) (time.Duration, int64, error) {
	var total time.Duration
	var calls int64
	for _, s := range c {
		fields, err := s.info(ctx, "commandstats")
		if err != nil {
			return 0, 0, err
		}
		for _, name := range commands {
			line := fields["cmdstat_"+name]
			if line == "" {
				continue // not called yet
			}
			var n, us int64
			if _, err := fmt.Sscanf(line, "calls=%d,usec=%d,", &n, &us); err != nil {
				return 0, 0, fmt.Errorf("INFO commandstats of %s: %q: %w", s.Addr(), line, err)
			}
			total += time.Duration(us) * time.Microsecond
			calls += n
		}
	}
	return total, calls, nil
}
