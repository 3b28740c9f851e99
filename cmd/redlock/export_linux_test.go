package main

// TryWrite is how the watchdog is told.
var TryWrite = tryWrite
