package main

// Run is the program without its process: for the tests.
var Run = run
