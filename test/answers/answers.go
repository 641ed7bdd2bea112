// Package answers asks every command that decides about a release about the
// same one, and compares what they say.
//
//	said := answers.Release{Run: scene.Run, Profile: "profile.yaml", Version: "v0.1.0", Plan: "plan.json"}.Ask(ctx)
//	if why := answers.Differ(said); why != "" { … }
package answers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// Release is one release and the profile that it is judged under. The stages of
// the profile hold the same bytes, so that who judges what is staged and who
// judges what is public are asked the same.
type Release struct {
	Run     func(ctx context.Context, args ...string) scene.Result
	Profile string
	Version string
	Plan    string // a saved plan of its promotion
	State   string // a directory that need not be there
	// Confirm has the commands do what they can, instead of only saying it.
	Confirm bool
	// Without are commands, by how their line begins, that answer otherwise, and
	// why they may.
	Without map[string]string
}

// Answer is what one command said: its exit status, and the codes of what it
// found, each once and sorted.
type Answer struct {
	Command string
	Exit    int
	Codes   []verdict.Code
	Said    string
}

// CannotAsk are the commands that decide about something else than a whole
// release, and why that is so.
func CannotAsk() map[string]string {
	return map[string]string{
		"waybill gate serve": "it decides about images, each by itself: it reads no manifest and no files, so it is asked nothing about a release",
		"waybill gate proxy": "it decides about images, each by itself, when a client of a registry pushes or pulls it",
		"waybill gate file":  "it decides about one file and the evidence that is named: nothing says of which release it is",
		"waybill gate image": "it decides about one image and what refers to it: no manifest lists it",
		"feature reconcile":  "its audit of sign-offs reads the manifest and the sign-off of a release and nothing else",
	}
}

// Commands are those that decide about a release. A word in capitals stands for
// what is asked about; CONFIRM is --confirm, or nothing.
func Commands() []string {
	return []string{
		"k8s-verify-release VERSION --profile PROFILE",
		"waybill verify release VERSION --profile PROFILE",
		"waybill gate check VERSION --profile PROFILE",
		"waybill release VERSION --profile PROFILE --state STATE CONFIRM",
		"waybill promote VERSION --to release --profile PROFILE --state STATE CONFIRM",
		"waybill promote plan VERSION --to release --profile PROFILE --state STATE",
		"waybill promote apply PLAN --profile PROFILE --state STATE CONFIRM",
	}
}

// Ask asks every command, with more flags that all of them have.
func (r Release) Ask(ctx context.Context, flags ...string) []Answer {
	confirm := ""
	if r.Confirm {
		confirm = "--confirm"
	}
	words := strings.NewReplacer("VERSION", r.Version, "PROFILE", r.Profile, "PLAN", r.Plan, "STATE", r.State, "CONFIRM", confirm)
	lines := slices.DeleteFunc(Commands(), func(line string) bool {
		for begin := range r.Without {
			if strings.HasPrefix(line, begin) {
				return true
			}
		}
		return false
	})
	all := make([]Answer, len(lines))
	var wait sync.WaitGroup
	for i, line := range lines {
		wait.Go(func() {
			got := r.Run(ctx, append(strings.Fields(words.Replace(line)), flags...)...)
			all[i] = Answer{Command: line, Exit: got.Code, Codes: CodesIn(got), Said: got.Stdout + got.Stderr}
		})
	}
	wait.Wait()
	return append(all, r.library(ctx, flags))
}

// library is the answer of a program of somebody else's, in the ten lines that
// package gate shows.
func (r Release) library(ctx context.Context, flags []string) Answer {
	const command = "gate.Open and Verify"
	var named gate.Named
	for i := 0; i+1 < len(flags); i += 2 {
		to, known := map[string]*[]string{"--exception": &named.Exceptions, "--accept-defect": &named.Accept, "--known-defects": &named.Defects}[flags[i]]
		if !known {
			return Answer{Command: command, Said: "it has no " + flags[i]}
		}
		*to = append(*to, flags[i+1])
	}
	g, err := gate.Open(ctx, r.Profile, gate.Opening{Named: named})
	if err != nil {
		return Of(command, nil, err)
	}
	v, err := g.Verify(ctx, r.Version)
	if err != nil {
		return Of(command, nil, err)
	}
	return Of(command, v, v.Err())
}

// Of is what a command would have said of a verdict, or of an error.
func Of(command string, v *verdict.Verdict, err error) Answer {
	a := Answer{Command: command, Said: fmt.Sprint(err)}
	if err == nil {
		return a
	}
	a.Exit = verdict.ExitCode(verdict.OutcomeOf(err))
	if v == nil {
		a.Codes = []verdict.Code{verdict.FindingOf("", err).Code}
		return a
	}
	for _, f := range v.Findings {
		a.Codes = append(a.Codes, f.Code)
	}
	slices.Sort(a.Codes)
	a.Codes = slices.Compact(a.Codes)
	return a
}

// CodesIn are the codes of a verdict's findings, which stand in the second
// column of its table, or the one of an error, which is the third word of its
// line.
func CodesIn(r scene.Result) []verdict.Code {
	known := verdict.Codes()
	var found []verdict.Code
	for line := range strings.Lines(r.Stdout + "\n" + r.Stderr) {
		words := strings.Fields(line)
		if len(words) < 2 || !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "   ") {
			continue
		}
		if c := verdict.Code(words[0]); slices.Contains(known, c) && !strings.HasSuffix(strings.TrimSpace(line), ", a warning") {
			found = append(found, c)
		}
	}
	if len(found) == 0 && r.Code != 0 {
		for _, word := range strings.Fields(r.Stderr) {
			if c := verdict.Code(strings.Trim(word, ":,.")); slices.Contains(known, c) {
				found = append(found, c)
				break
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Differ says how the answers differ; empty if they are one.
func Differ(all []Answer) string {
	var lines []string
	for _, a := range all[1:] {
		if a.Exit != all[0].Exit || !slices.Equal(a.Codes, all[0].Codes) {
			lines = append(lines, fmt.Sprintf("%s: status %d %v, want %d %v as %s says\n%s", a.Command, a.Exit, a.Codes, all[0].Exit, all[0].Codes, all[0].Command, a.Said))
		}
	}
	return strings.Join(lines, "\n")
}

// ByVector are the codes that a bundle can be refused with before it is known
// what it says: vectors provoke them in the place of the manifest.
func ByVector() []verdict.Code {
	return []verdict.Code{
		verdict.BundleLacks, verdict.BundleParse, verdict.BundleVersion, verdict.CertLimit, verdict.CertMissing, verdict.CertParse,
		verdict.CheckpointOrigin, verdict.CheckpointSig, verdict.KeyExpired, verdict.Limit, verdict.LimitSubjects, verdict.LogEntryUnbound, verdict.LogKeyMismatch,
		verdict.LogKind, verdict.LogMissing, verdict.LogProof, verdict.LogPromise, verdict.LogSigMismatch, verdict.LogUnknown, verdict.MaterialKind,
		verdict.StatementParse, verdict.PayloadType, verdict.PredicateType, verdict.SCT, verdict.SigCount, verdict.StatementType, verdict.Threshold,
		verdict.TimeCert, verdict.TimeDisagree, verdict.TimeInvalid, verdict.TimeMissing, verdict.TimeUnsigned, verdict.TrustRootParse, verdict.TSAImprint, verdict.TSAWindow,
	}
}
