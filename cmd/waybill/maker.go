package main

import (
	"os"
	"runtime/debug"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/pipeline"
)

// maker describes this program, and the job that runs it, for records.
func maker() pipeline.Maker {
	m := pipeline.Maker{Promoter: promotionrecord.Promoter{Version: cli.BuildVersion()}, Job: job(os.Getenv)}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return m
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			m.Commit = s.Value
		}
	}
	return m
}

// job describes the CI job, from the environment of Prow, GitHub Actions or GitLab.
// Elsewhere it is empty.
func job(env func(string) string) promotionrecord.Job {
	for _, named := range [][4]string{
		{"JOB_NAME", "JOB_TYPE", "BUILD_ID", "PROW_JOB_ID"},
		{"GITHUB_WORKFLOW", "GITHUB_EVENT_NAME", "GITHUB_RUN_ID", ""},
		{"CI_JOB_NAME", "CI_PIPELINE_SOURCE", "CI_JOB_ID", ""},
	} {
		if j := (promotionrecord.Job{Name: env(named[0]), Type: env(named[1]), BuildID: env(named[2])}); j.Name != "" {
			if named[3] != "" {
				j.ProwJobID = env(named[3])
			}
			return j
		}
	}
	return promotionrecord.Job{}
}
