package gate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// maxInputs is how many different inputs of one release are looked up.
const maxInputs = 256

// input is what a build used of others, as provenance and lock name it: an
// image, a program, a download.
type input struct {
	name   string // "base static", "tool go", "download firmware"
	uri    string // oci://HOST/REPOSITORY@sha256:… for an image, the address of a download; empty for a program
	digest digest.Digest
}

// inputsOf lists the inputs that provenance names: every dependency but the
// source, Go modules, which go.sum in the source pins, and artifacts of the
// release. What another tool names in another form is an input, too.
func (m signedManifest) inputsOf(dependencies []intoto.Resource) (list []input) {
	for _, r := range dependencies {
		own, listed := m.Find(r.Name)
		if strings.HasPrefix(r.URI, "git+") || strings.HasPrefix(r.URI, "pkg:golang/") || listed && r.Digest["sha256"] == own.Digests.SHA256.Hex() {
			continue
		}
		in := input{name: cmp.Or(r.Name, r.URI), uri: r.URI}
		in.digest, _ = digest.ParseHex(digest.SHA256, r.Digest["sha256"]) // without a digest nothing can be verified about it
		list = append(list, in)
	}
	return list
}

func pinned(l plan.Lock) (list []input) {
	image := func(name, image string, sum digest.Digest) {
		uri := "oci://" + image + "@" + sum.String()
		if strings.HasPrefix(image, "oci:") {
			uri = image
		}
		list = append(list, input{name, uri, sum})
	}
	for _, name := range slices.Sorted(maps.Keys(l.Bases)) {
		image("base "+name, l.Bases[name].Image, l.Bases[name].Digest)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Tools)) {
		t := l.Tools[name]
		for _, platform := range slices.Sorted(maps.Keys(t.Platforms)) {
			sum, _ := digest.Parse(t.Platforms[platform]) // the checksum of a toolchain names no file: nothing can be verified about it
			list = append(list, input{"tool " + name, "", sum})
		}
		switch {
		case t.Image != "":
			image("tool "+name, t.Image, t.Digest)
		case t.Platforms == nil:
			list = append(list, input{"tool " + name, "", t.Digest})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Downloads)) {
		list = append(list, input{"download " + name, l.Downloads[name].URL, l.Downloads[name].Digest})
	}
	return list
}

func (i input) isImage() bool { return strings.HasPrefix(i.uri, "oci:") }

// repository is that of an image in a registry, as HOST/PATH; empty for
// anything else. An image of the source has none.
func (i input) repository() string {
	rest, remote := strings.CutPrefix(i.uri, "oci://")
	if !remote {
		return ""
	}
	repository, _, _ := strings.Cut(rest, "@")
	return repository
}

// tool is the name of a program or download; empty for an image.
func (i input) tool() string {
	for _, kind := range []string{"tool ", "download "} {
		if name, is := strings.CutPrefix(i.name, kind); is && !i.isImage() {
			return name
		}
	}
	return ""
}

// subject names the input in findings.
func (i input) subject() string {
	if repository := i.repository(); repository != "" {
		return repository + "@" + i.digest.String()
	}
	return i.name + " " + i.digest.String()
}

// check refuses an input that is not named by one digest.
func (i input) check() error {
	_, named, pinned := strings.Cut(i.uri, "@sha256:")
	switch {
	case i.digest.IsZero():
		return verdict.Refuse(verdict.NoArtifact, i.subject(), "the provenance names no sha256 digest of it")
	case i.isImage() && pinned && named != i.digest.Hex():
		return &verdict.Error{Finding: verdict.Find(verdict.NotBound, i.subject(), "the provenance names two digests of it").Differ(i.digest.Hex(), named)}
	}
	return nil
}

// Inputs verifies the base images, tools and downloads that a lock pins, by the
// inputs of the profile's policy. It returns what was verified, and what not
// because the policy does not name it. Without inputs in the policy it does
// nothing.
func (g Gate) Inputs(ctx context.Context, pins plan.Lock, now time.Time) (lines []string, err error) {
	if _, judges := g.profile.Policy.JudgesInputs(); !judges {
		return nil, nil
	}
	j := terms{policy: g.profile.Policy, root: g.verifier.Root(), now: now}.begin("the inputs in " + plan.LockName)
	answers, f := g.inputJudge(now).judge(ctx, pinned(pins))
	j.addFacts(f)
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		for _, p := range answers[name].Proofs {
			lines = append(lines, fmt.Sprintf("verified: %s, %s by %s", name, p.Statement, p.Identity+p.Key.String()))
		}
	}
	for _, w := range j.v.Warnings {
		lines = append(lines, fmt.Sprintf("WARNING: %s: %s", w.Code, w.Message))
	}
	lines = append(lines, f.notes...)
	if v := j.end(version.Version{}, nil); len(v.Findings) > 0 {
		return nil, v.Err()
	}
	return lines, nil
}

func (g Gate) inputJudge(now time.Time) inputJudge {
	return inputJudge{policy: g.profile.Policy, root: g.verifier.Root(), now: now, world: &g.opening}
}

// withInputs verifies what the builds of the artifacts in scope used, and adds
// the inputs whose row requires a level to what the artifacts are made of.
func (g gathered) withInputs(ctx context.Context, all []builtArtifact, f *facts) []builtArtifact {
	if _, judges := g.release.Policy.JudgesInputs(); !judges {
		return all
	}
	var used []input
	scope := g.inScope(all)
	for _, b := range all {
		if scope[b.name] {
			used = append(used, b.uses...)
		}
	}
	j := inputJudge{policy: g.release.Policy, root: g.release.Verifier.Root(), now: g.release.Now, finder: g.release.Options.Finder, world: g.release.world}
	answers, found := j.judge(ctx, used)
	f.differences, f.proofs, f.inputs = append(f.differences, found.differences...), append(f.proofs, found.proofs...), append(f.inputs, found.inputs...)
	f.notes, f.checks = append(f.notes, found.notes...), append(f.checks, "inputs")
	all = slices.Clone(all)
	for n, b := range all {
		for _, in := range b.uses {
			if a, is := answers[in.subject()]; is && a.level != nil && a.Outcome() != verdict.Unavailable {
				all[n].inputs = append(slices.Clip(all[n].inputs), in.subject())
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if a := answers[name]; a.level != nil && a.Outcome() != verdict.Unavailable {
			all = append(all, builtArtifact{name: name, report: *a.level})
		}
	}
	return all
}

// inScope are the built artifacts in scope, and those that they are made of.
func (g gathered) inScope(all []builtArtifact) map[string]bool {
	inputs, due := map[string][]string{}, []string{}
	for _, b := range all {
		inputs[b.name] = b.inputs
		if a, _ := g.release.manifest.Find(b.name); g.release.covers(a) {
			due = append(due, b.name)
		}
	}
	scope := map[string]bool{}
	for n := 0; n < len(due); n++ { // due grows
		if !scope[due[n]] {
			scope[due[n]] = true
			due = append(due, inputs[due[n]]...)
		}
	}
	return scope
}
