package cli

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/download"
	"github.com/waybill-release/waybill/pkg/gate/latest"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Part says which part of a release is verified, and how deeply.
type Part struct {
	Depth    string
	Only     string
	Platform string
	Require  []string
	// Sources are files about the source and the builder.
	Sources Sources
	// Vouched accepts a verifier's summary instead of evaluating provenance.
	Vouched bool
}

// Depths of a verification.
const (
	depthFiles      = "files"
	depthSignatures = "signatures"
	depthEvidence   = "provenance"
	depthFull       = "full"
)

// AddDepth adds the flag that every verification has.
func (p *Part) AddDepth(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.Depth, "depth", depthEvidence, "how much to check. files: the bytes are those that the manifest lists; signatures: also who signed them; provenance: also all other evidence that manifest and policy require; full: also compare the SBOM of each artifact with its content. With files or signatures the verdict is partial")
	p.Sources.AddFlags(cmd)
	cmd.Flags().BoolVar(&p.Vouched, "accept-vsa", false, "accept a verifier's summary (VSA) instead of evaluating provenance, if it satisfies the policy's summaries: signer and verifier, resource, policy digest, levels, age, and no later FAILED. Everything is still hashed and listed; the verdict names the summary and is partial")
}

// AddFlags adds the flags that select a part, and --require-level.
func (p *Part) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.Only, "only", "", "judge only the files or only the images; the verdict is then partial")
	f.StringVar(&p.Platform, "platform", "", "judge only artifacts of this platform, such as linux/amd64, or host for that of this machine, and those of no platform; the verdict is then partial")
	f.StringArrayVar(&p.Require, "require-level", nil, "refuse a release in which any artifact, or anything that it was built from, has a lower SLSA level: "+levelsOffered+"; repeats")
}

func (p *Part) check() error {
	if !slices.Contains([]string{depthFiles, depthSignatures, depthEvidence, depthFull}, p.Depth) {
		return verdict.Refuse(verdict.Usage, "--depth", "%q: want files, signatures, provenance or full", p.Depth)
	}
	if len(p.Sources.Summaries)+len(p.Sources.Declarations) > 0 && p.Depth != depthEvidence && p.Depth != depthFull {
		return verdict.Refuse(verdict.Usage, "--depth", "--source-vsa and --declaration are about levels, and levels are read from provenance, which --depth leaves out; leave one of the flags out")
	}
	if p.Only != "" && p.Only != policy.Files && p.Only != policy.Images {
		return verdict.Refuse(verdict.Usage, "--only", "%q: want files or images; to say where they are, use --files and --images", p.Only)
	}
	return nil
}

// Scope is the scope of the question to the gate.
func (p *Part) Scope(files []string) (gate.Scope, error) {
	if slices.Contains(files, "") {
		return gate.Scope{}, verdict.Refuse(verdict.Usage, "FILE", "empty name; is a variable unset?")
	}
	s := gate.Scope{Only: p.Only, Platform: strings.ReplaceAll(p.Platform, "host", runtime.GOOS+"/"+runtime.GOARCH), Given: files}
	switch p.Depth {
	case depthFiles:
		s.Depth = gate.OnlyFiles
	case depthSignatures:
		s.Depth = gate.OnlySignatures
	}
	var err error
	s.Levels, err = Demands(p.Require)
	return s, err
}

// Keep says what to do with the verified files.
type Keep struct {
	Sums     bool
	Download string
	// State is the directory that remembers channel indexes and evidence.
	State string
}

// AddFlags adds the flags.
func (k *Keep) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&k.Sums, "print-sums", false, "if the release is accepted, print the SHA-256 sums of its files in the format of sha256sum; the verdict goes to stderr")
	f.StringVar(&k.Download, "download", "", "keep the files in this directory, which must not exist; it is created only when they are accepted. Until then they are in DIR.part, where the next run continues. For a release without a manifest, DIR.evidence keeps the answers of the log")
	f.StringVar(&k.State, "state", "", "directory that stores the last seen channel index, to detect rollback, and which kinds of evidence and signers each accepted release had: a release with less than the one before is refused (EVIDENCE_REGRESSED). For a channel, the default is waybill/channels in the user's cache directory; for a version, nothing is stored without the flag")
}

// channel is the release that a channel, or a version, names.
type channel struct {
	found  latest.Followed
	memory latest.Request
}

// resolve returns the version that the first argument is, or that the channel
// which it names points to.
func (o *VerifyRelease) resolve(ctx context.Context, args []string, by gate.Gate, now time.Time) (channel, error) {
	p, t, memory := by.Profile(), Transport(o.Trust.Offline), o.Keep.State
	if !latest.IsChannel(args[0]) {
		named, err := Version(args)
		if memory != "" && p.Unsealed != nil {
			err = verdict.Refuse(verdict.Usage, "--state", "evidence is only compared between releases with a manifest, and a version was given")
		}
		return channel{latest.Followed{Version: named}, latest.Request{Memory: memory, Project: p.Name}}, err
	}
	if memory == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return channel{}, verdict.Wrap(verdict.Usage, "--state", err)
		}
		memory = filepath.Join(cache, "waybill", "channels")
	}
	req := latest.Request{
		Channel: args[0], Index: p.Channels.Index, Markers: p.Channels.Markers,
		Open:     func(uri string) (store.Place, error) { return store.Open(uri, t) },
		Verifier: by.Verifier(), Policy: p.Policy, Memory: memory, Project: p.Name, Now: now,
	}
	found, err := latest.Find(ctx, req)
	return channel{found, req}, err
}

// followed notes in a verdict how the channel was resolved.
func (c channel) followed(v *verdict.Verdict) {
	if c.found.Note != "" {
		v.Tell("%s", c.found.Note)
	}
	if c.found.Left != "" {
		v.Scope.Left = append(v.Scope.Left, c.found.Left)
	}
}

// finish remembers the evidence of an accepted release, and moves an accepted
// download to its directory. Of a refused one it removes the files with findings.
func (a asking) finish(ctx context.Context, decided gate.Decided) {
	v := decided.Verdict
	if a.Earlier != nil && decided.Evidence != nil && v.Err() == nil {
		a.Earlier[a.Version] = decided.Evidence
		v.AddError("--state", a.memory.Keep(ctx, a.Earlier))
	}
	if a.into == nil {
		return
	}
	if v.Err() != nil {
		if err := a.into.Discard(decided.IsRefused); err != nil {
			v.AddError("--download", err)
		}
		v.Tell("Nothing was downloaded: files without findings are kept in the directory whose name ends in %s, and the next run reuses them.", download.Suffix)
		return
	}
	files := slice.Map(decided.Kept(), func(name string) download.File { return download.File{Name: name, Program: decided.IsProgram(name)} })
	kept, err := a.into.Finish(ctx, files)
	if err != nil {
		v.AddError("--download", err)
		return
	}
	v.Tell("Downloaded to %s: files %d, of which %d by an earlier run; %s.", kept.Dir, kept.Files, kept.Before, ui.Bytes(kept.Bytes))
	if kept.Left > 0 {
		v.Tell("Files in %s that are not part of the release and that this run did not write, left there: %d.", kept.Dir+download.Suffix, kept.Left)
	}
	if a.evidence != "" {
		v.Tell("The answers of the log are in %s; to verify the copy without a network, use --offline --files %s --evidence %s.", a.evidence, kept.Dir, a.evidence)
	}
}
