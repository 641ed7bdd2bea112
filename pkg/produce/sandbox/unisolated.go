package sandbox

import (
	"context"
	"os/exec"
	"path/filepath"
	"time"
)

// unisolated runs a step as an ordinary process.
func unisolated(ctx context.Context, _ Mode, s Step, log *Log) (Report, error) {
	report := noGuarantees("the step runs unisolated")
	report.Mode = Unisolated
	src := filepath.Join(s.Scratch, "src")
	program, err := find(src, s.Command, s.Env)
	if err != nil {
		return report, err
	}
	cmd := exec.CommandContext(ctx, program, s.Command[1:]...)
	cmd.Args[0] = s.Command[0]
	cmd.Dir = src
	cmd.Env = append([]string{}, s.Env...) // nil would mean our own environment
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = 5 * time.Second // for remaining processes that keep the log open
	return report, start(cmd)
}
