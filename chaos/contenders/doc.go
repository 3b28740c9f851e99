// Package contenders plays the same failures to redlock and to the locks of other
// systems, on servers that it starts and kills itself. These are etcd, ZooKeeper,
// PostgreSQL, MariaDB, memcached, and other clients of Redis; one is a row with a
// version, which locks nobody out. It writes one table, and a page of pictures for each
// failure.
//
// Holders are processes of their own: the program runs itself again. They write what
// they believe as JSON lines, by the clock that all processes of a machine share, so
// that SIGSTOP stops a holder with its timers, its library and its connections. Command
// redlock-compare is the program.
package contenders
