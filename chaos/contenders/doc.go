// Package contenders plays the same failures to redlock and to the locks of other
// systems (etcd, ZooKeeper, PostgreSQL, MariaDB, memcached, and other clients of
// Redis), on servers that it starts and kills itself, and writes one table and one
// page of pictures. One of them is a row with a version, which locks nobody out.
//
// Holders are processes of their own: the program runs itself again. They write what
// they believe as JSON lines, by the clock that all processes of a machine share, so
// that SIGSTOP stops a holder with its timers, its library and its connections. Command
// redlock-compare is the program.
package contenders
