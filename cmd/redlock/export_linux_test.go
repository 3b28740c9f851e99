package main

// TryWrite is how the watchdog is told.
var TryWrite = tryWrite

// WatchdogTries is how many watchdogs in a row may end at once.
const WatchdogTries = watchdogTries
