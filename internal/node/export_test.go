package node

// AcquireVote reads a reply of acquire.lua.
var AcquireVote = acquireVote
