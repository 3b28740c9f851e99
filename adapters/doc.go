// Package adapters fits a redlock.Locker into what others already use: gocron v2
// ([Gocron], [Elector]), certmagic ([Certmagic]) and robfig/cron ([NewCron],
// [Job]).
//
// It imports none of them. Their interfaces are met by their method sets, and
// where one of them names a type of its own, by a type parameter. The module
// adaptertest beside it holds the package against the real ones and runs them.
//
// All of them renew a lock for as long as it is held, release it no matter what became
// of the context they were called with, and report a lock that was lost while
// somebody worked under it ([WithReport]). What they don't do is stop work that
// can't be stopped: only [Job] hands its work a context.
package adapters
