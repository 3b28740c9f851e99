package node

// AcquireVote reads a reply of acquire.lua.
var AcquireVote = acquireVote

// InfoField is a field of INFO.
var InfoField = infoField
