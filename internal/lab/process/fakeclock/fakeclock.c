// fakeclock sets the wall clock of one server process, for tests.
//
// Preloaded into a process, it moves the realtime clock that the process reads, and
// leaves every other clock true. The setting is the file that REDLOCK_FAKE_CLOCK
// names, one line: "+20" is twenty seconds ahead, "-3600" an hour behind,
// "+0 x1.5" half as fast again from the process's first look on. It is read at
// every look, so it must be replaced by rename. Without a file the clock is true.
//
// It asks the kernel by system calls and allocates nothing. Its first call comes
// while an allocator starts: libfaketime resolves symbols there, which allocates,
// and with the jemalloc of Redis 8 and Valkey 8 waits for itself.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

// number reads a decimal number, and moves the cursor behind it.
static double number(const char **at) {
  const char *c = *at;
  double n = 0, unit = 1, sign = 1;
  if (*c == '+' || *c == '-') sign = *c++ == '-' ? -1 : 1;
  for (; *c >= '0' && *c <= '9'; c++) n = n * 10 + (*c - '0');
  if (*c == '.')
    for (c++; *c >= '0' && *c <= '9'; c++) n += (*c - '0') * (unit /= 10);
  *at = c;
  return sign * n;
}

// set is the time that the setting makes of now, in nanoseconds.
static long long set(long long now) {
  static long long begun;
  long long none = 0;
  __atomic_compare_exchange_n(&begun, &none, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

  const char *name = getenv("REDLOCK_FAKE_CLOCK");
  int file = name ? (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return now;
  char line[64];
  long n = syscall(SYS_read, file, line, sizeof line - 1);
  syscall(SYS_close, file);
  if (n <= 0) return now;
  line[n] = 0;

  const char *at = line;
  long long moved = now + (long long)(number(&at) * SECOND);
  while (*at == ' ') at++;
  if (*at++ != 'x') return moved;
  return moved + (long long)((double)(now - begun) * (number(&at) - 1));
}

int clock_gettime(clockid_t id, struct timespec *t) {
  int err = (int)syscall(SYS_clock_gettime, id, t);
  if (err || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return err;
  long long now = set(t->tv_sec * SECOND + t->tv_nsec);
  t->tv_sec = now / SECOND;
  t->tv_nsec = now % SECOND;
  return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *t) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}
