package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/download"
	"github.com/waybill-release/waybill/pkg/gate/latest"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Part is how much of a release is asked about, and how far.
type Part struct {
	Depth    string
	Only     string
	Platform string
	Require  string
	// Vouched takes a verifier's summary in place of evaluating provenance.
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
	cmd.Flags().StringVar(&p.Depth, "depth", depthEvidence, "provenance: all evidence that manifest and policy ask for; full: besides, look into each artifact and hold its SBOM against what is in it; files: are the bytes those that were sealed; signatures: and who signed them. The last two make the verdict partial")
	cmd.Flags().BoolVar(&p.Vouched, "accept-vsa", false, "where a verifier's summary counts by the policy's summaries (its signer and verifier, resource, policy by digest, levels and age, and no later FAILED), take it in place of evaluating provenance; everything is hashed and listed all the same, and the verdict is partial and names the summary")
}

// AddFlags adds the flags that narrow, or ask more.
func (p *Part) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.Only, "only", "", "judge only the files or only the images; the verdict is then partial")
	f.StringVar(&p.Platform, "platform", "", "judge only what is of this platform, as linux/amd64, or of none; the verdict is then partial")
	f.StringVar(&p.Require, "require-level", "", "refuse a release of which anything has a lower SLSA level, down to the source: build=1 to build=3")
}

func (p *Part) check() error {
	if !slices.Contains([]string{depthFiles, depthSignatures, depthEvidence, depthFull}, p.Depth) {
		return verdict.Refuse(verdict.Usage, "--depth", "%q: want files, signatures, provenance or full", p.Depth)
	}
	if p.Only != "" && p.Only != policy.Files && p.Only != policy.Images {
		return verdict.Refuse(verdict.Usage, "--only", "%q: want files or images; where they are is said with --files and --images", p.Only)
	}
	return nil
}

// Scope is what the gate is asked.
func (p *Part) Scope(files []string) (gate.Scope, error) {
	if slices.Contains(files, "") {
		return gate.Scope{}, verdict.Refuse(verdict.Usage, "FILE", "its name is empty; is a variable unset?")
	}
	s := gate.Scope{Only: p.Only, Platform: p.Platform, Given: files}
	switch p.Depth {
	case depthFiles:
		s.Depth = gate.OnlyFiles
	case depthSignatures:
		s.Depth = gate.OnlySignatures
	}
	if p.Require == "" {
		return s, nil
	}
	d, err := slsa.ParseDemand(p.Require)
	if err != nil {
		return gate.Scope{}, verdict.Wrap(verdict.Usage, "--require-level", err)
	}
	if d.Track != slsa.Build {
		return gate.Scope{}, verdict.Refuse(verdict.Usage, "--require-level", "%q: of a whole release the Build track is asked, as build=3", p.Require)
	}
	s.Level = d.Level
	return s, nil
}

// Keep says what becomes of what was verified.
type Keep struct {
	Sums     bool
	Download string
	// State is the directory that remembers which channel index was seen.
	State string
}

// AddFlags adds the flags.
func (k *Keep) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&k.Sums, "print-sums", false, "print the sums of the verified files as sha256sum reads them, if the release is accepted; the verdict goes to stderr")
	f.StringVar(&k.Download, "download", "", "keep the files in this directory, which must not be there yet; it appears only once they are accepted. Until then they are in DIR.part, from which the next run goes on. Of a release without a manifest, the answers of the log are kept in DIR.evidence")
	f.StringVar(&k.State, "state", "", "directory that remembers the channel index that was seen (default waybill/channels in the user's cache directory)")
}

// channel is the release that was meant, and by whose word.
type channel struct{ found latest.Followed }

// resolve is the version of the first argument, or that of the channel that it
// names.
func (o *VerifyRelease) resolve(ctx context.Context, args []string, by gate.Gate, now time.Time) (channel, error) {
	if !latest.IsChannel(args[0]) {
		named, err := Version(args)
		return channel{latest.Followed{Version: named}}, err
	}
	memory := o.Keep.State
	if memory == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return channel{}, verdict.Wrap(verdict.Usage, "--state", err)
		}
		memory = filepath.Join(cache, "waybill", "channels")
	}
	p, t := by.Profile(), Transport(o.Trust.Offline)
	found, err := latest.Find(ctx, latest.Request{
		Channel: args[0], Index: p.Channels.Index, Markers: p.Channels.Markers,
		Open:     func(uri string) (store.Place, error) { return store.Open(uri, t) },
		Verifier: by.Verifier(), Policy: p.Policy, Memory: memory, Project: p.Name, Now: now,
	})
	return channel{found}, err
}

// followed says in a verdict which release was meant.
func (c channel) followed(v *verdict.Verdict) {
	if c.found.Note != "" {
		v.Note("%s", c.found.Note)
	}
	if c.found.Left != "" {
		v.Scope.Left = append(v.Scope.Left, c.found.Left)
	}
}

// finish shows a download of what was accepted.
func (a asking) finish(ctx context.Context, decided gate.Decided) {
	if a.into == nil {
		return
	}
	v := decided.Verdict
	if v.Err() != nil {
		if err := a.into.Discard(decided.IsRefused); err != nil {
			v.AddError("--download", err)
		}
		v.Note("nothing was downloaded: the files that were fetched and have no finding are in the directory with %s at the end of its name, and the next run takes them from there", download.Suffix)
		return
	}
	var files []download.File
	for _, name := range decided.Kept() {
		files = append(files, download.File{Name: name, Program: decided.IsProgram(name)})
	}
	kept, err := a.into.Finish(ctx, files)
	if err != nil {
		v.AddError("--download", err)
		return
	}
	v.Note("downloaded to %s: files %d, of which an earlier run fetched %d; %s", kept.Dir, kept.Files, kept.Before, ui.Bytes(kept.Bytes))
	if kept.Left > 0 {
		v.Note("left in %s: files that are no part of the release and that this run did not write, %d", kept.Dir+download.Suffix, kept.Left)
	}
	if a.evidence != "" {
		v.Note("the answers of the log are in %s; to verify the copy without a network: --offline --files %s --evidence %s", a.evidence, kept.Dir, a.evidence)
	}
}
