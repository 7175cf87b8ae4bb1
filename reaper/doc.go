// Package reaper is the one way through the program: a line of a log or the clock asks for a pass, and a pass scans, judges,
// and carries out what is due. The daemon, sweep, scan, explain and doctor run the same pass.
//
//	line ─▶ parsers ─▶ Daemon.Read ─▶ schedule ─▶ Pass:
//	  recover   intents without a result get one, by where the directory is
//	  scan      Scanner.Scan ─▶ judge.Decide ─▶ plan
//	  release   a pod that an operator restored, if the kubelet has not reported it for an hour
//	  restore   intent (and breaker) ─▶ rename back ─▶ result
//	  move      intent ─▶ scan and judge again ─▶ rename ─▶ result ─▶ scan: alive? ─▶ restore
//	  clean     intent ─▶ remove ─▶ result; gives way after a second, and in a pass that moves to the next pass
//	  announce  what needs an operator, once per change and start
//	  end       journal, metrics, Status
//
// It is killed at any instruction, or stopped at any step, without a loss:
//   - Before the rename nothing has changed: the next start writes not-moved.
//   - After the rename the ledger has the intent, and the next start finds the directory in quarantine by its identity.
//     The pod is judged like every quarantined pod: if it is alive, it is restored.
//   - After SIGTERM the loop still writes the result of a rename, scans these pods and restores the living ones. The daemon
//     waits for that for 8 seconds, and the process ends after 9. What is not done then is left to the next start.
//   - A clean that was cut short is begun again after a scan, with the same classes. If the entry is gone then, this program
//     has removed it. If it is gone otherwise, another process has, which is an error for an operator.
//
// pass.go has the steps of a pass and the scan, move.go moves and restores with both rechecks and the recovery, clean.go removes,
// end.go makes the status. daemon.go has the schedule.
//
// The loop decides nothing about a pod: package judge does. It makes no system call: Scanner, Disk and Ledger do.
package reaper
