package tree

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/test/bench"
)

// decided is one artifact with everything that the gate brings before the
// policy.
type decided struct {
	question policy.Question
	evidence []verify.Evidence
}

// Decide decides about every artifact of the tree made in dir as the gate does,
// and says on w what that took. All evidence is verified beforehand, which
// does not count. A pass knows nothing of the one before.
func Decide(w io.Writer, dir string, passes int) error {
	made, err := open(dir)
	if err != nil {
		return err
	}
	all, err := made.bring(time.Now())
	if err != nil {
		return err
	}
	return bench.Measure(w, func() error {
		for range passes {
			hearing := made.policy.NewSession()
			for _, d := range all {
				d.question.Why = map[policy.Check]error{}
				if err := hearing.Decide(d.evidence, d.question).Err(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// bring verifies the evidence of every artifact that the policy judges.
func (o opened) bring(now time.Time) ([]decided, error) {
	var all []decided
	made := map[string]verify.Evidence{} // provenance, by name
	for _, a := range o.manifest.Files() {
		if len(policy.ChecksOf(a.Class)) == 0 {
			continue
		}
		d := decided{question: policy.Question{
			Stage: policy.Published, Class: a.Class, Subject: a.Name, Bytes: a.Digests,
			Version: o.manifest.Version.String(), Commit: o.manifest.Source.Commit, At: now,
		}}
		if err := o.evidence(&d, a, made); err != nil {
			return nil, fmt.Errorf("reading the evidence of %q: %w", a.Name, err)
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the release in %q has nothing to decide about", o.dir)
	}
	return all, nil
}

func (o opened) evidence(d *decided, a manifest.Artifact, made map[string]verify.Evidence) error {
	if a.Class != plan.Sums {
		if _, there := made[a.Provenance]; !there {
			e, err := o.attestation(a.Provenance)
			if err != nil {
				return err
			}
			made[a.Provenance] = e
		}
		d.evidence = append(d.evidence, made[a.Provenance])
		raw, err := o.read(a.SBOM)
		if err != nil {
			return err
		}
		document, err := spdx.Parse(raw)
		if err != nil {
			return err
		}
		_, d.question.SBOM = document.Describes()
	}
	raw, err := o.read(a.Signature)
	if err != nil {
		return err
	}
	e, err := o.verifier.Blob(raw, a.Digests)
	d.evidence = append(d.evidence, e)
	return err
}

// Load reads the largest of the policies in dir that have no rules of their
// own, and says on w what that took: the first time in this process when
// passes is zero, and otherwise that many times after it.
func Load(w io.Writer, dir string, passes int) error {
	raw, err := largest(dir)
	if err != nil {
		return err
	}
	load := func() error {
		_, err := policy.Parse(raw, nil)
		return err
	}
	if passes == 0 {
		return bench.Measure(w, load)
	}
	if err := load(); err != nil {
		return err
	}
	return bench.Measure(w, func() error {
		for range passes {
			if err := load(); err != nil {
				return err
			}
		}
		return nil
	})
}

// largest is the text of the policy that has most of it, among those that need
// no engine for rules.
func largest(dir string) (found []byte, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text := string(raw)
		if strings.Contains(text, "\nkind: Policy\n") && !strings.Contains(text, "\nrules:\n") && len(raw) > len(found) {
			found = raw
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no policy in %q", dir)
	}
	return found, nil
}
