package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Sources are what explains entries: versions, verified where they are published; directories
// with bundles and state of releases; alarms dealt with, as LOG/INDEX. A file in a directory
// counts if an identity of the policy signed what it has. That it was meant to, nothing
// proves: a thief's bundle is as valid. So who can write to a directory is trusted.
type Sources struct {
	Versions, Dirs, Handled []string
	Reverify                time.Duration // how old the last verdict on a version may be; 0 verifies in each pass
}

// explain removes the entries that are explained. Sources are read after the checkpoint:
// what a release had logged by then is in its journal. A file that is about none of the
// entries is not verified.
func (r *run) explain(ctx context.Context, c *cursor) error {
	r.verify(ctx)
	wanted := map[string]bool{}
	for _, e := range c.Open {
		wanted[e.Name], wanted[e.Content] = true, true
	}
	for _, dir := range r.Explained.Dirs {
		if len(c.Open) == 0 {
			break
		}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if d.Name() == "signatures.jsonl" {
				return r.readJournal(path, wanted)
			}
			info, err := d.Info()
			if err != nil || info.Size() > verify.MaxBundle || !strings.HasSuffix(path, ".json") && filepath.Base(filepath.Dir(path)) != "sha256" {
				return err
			}
			raw, err := os.ReadFile(path)
			r.readBundle(raw, wanted)
			return err
		})
		if err != nil {
			return verdict.Wrap(verdict.PlaceDown, dir, err)
		}
	}
	for _, e := range c.Open {
		r.known[e.Content] = r.known[e.Content] || r.known[e.Name]
	}
	c.Open = slices.DeleteFunc(c.Open, func(e open) bool { return r.known[e.Content] || slices.Contains(r.Explained.Handled, e.Name) })
	return nil
}

// verify verifies the releases, once in a pass, unless their last verdict is new enough.
// What proves a release is explained, also if that was so before and is not any more.
func (r *run) verify(ctx context.Context) {
	for ; r.verified < len(r.Explained.Versions); r.verified++ {
		release := r.Explained.Versions[r.verified]
		var last verdict.Verdict
		err := r.read(release+verdictSuffix, &last)
		r.prove(last)
		if err == nil && (last.Time.IsZero() || r.now.Sub(last.Time) >= r.Explained.Reverify) {
			err = r.reverify(ctx, release, last)
		}
		if err != nil {
			f := verdict.FindingOf("release", err)
			f.Subject = release + ": " + f.Subject
			r.v.Add(f)
			r.partial = r.partial || f.Code.Outcome() == verdict.Unavailable
		}
	}
}

// prove marks what proves a release as explained.
func (r *run) prove(v verdict.Verdict) {
	for _, p := range v.Proofs {
		r.known[fmt.Sprintf("%s/%d", p.Log, p.LogIndex)] = true
	}
	for _, x := range v.VEX {
		r.known[x.Entry] = true
	}
}

// reverify verifies a release where it is published, and refuses what differs from the last
// verdict that was accepted. The next ones are compared with that, too, until the difference
// is handled. Of a release that was withdrawn, the manifest that says so is still explained.
func (r *run) reverify(ctx context.Context, release string, last verdict.Verdict) error {
	v, err := r.Gate.Verify(ctx, release)
	if err != nil {
		return err
	}
	if err := v.Err(); err != nil {
		if len(v.Findings) > 0 && !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Code != verdict.Withdrawn }) {
			r.prove(*v)
		}
		return err
	}
	was, is := essence(last), essence(*v)
	without := func(all, some []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(line string) bool { _, in := slices.BinarySearch(some, line); return in })
	}
	gone, added := without(was, is), without(is, was)
	name := fmt.Sprintf("%s/%s", release, digest.Of(digest.SHA256, []byte(strings.Join(is, "\n"))).Hex())
	if !last.Time.IsZero() && len(gone)+len(added) > 0 && !slices.Contains(r.Explained.Handled, name) {
		return &verdict.Error{Finding: verdict.Find("RELEASE_CHANGED", name, "it is not what was verified at %s", last.Time.Format(time.RFC3339)).
			Differ(strings.Join(gone[:min(len(gone), 5)], ", "), strings.Join(added[:min(len(added), 5)], ", "))}
	}
	r.prove(*v)
	return r.write(ctx, release+verdictSuffix, v)
}

// essence is what must stay the same in verdicts on a release: the bytes, the source and
// the level of SLSA, which do not depend on the time.
func essence(v verdict.Verdict) []string {
	lines := []string{v.Source}
	for _, o := range v.Objects {
		lines = append(lines, o.Name+" "+o.Digest.String())
	}
	if v.Least != nil {
		lines = append(lines, fmt.Sprintf("the SLSA Build level %d", v.Least.Level))
	}
	slices.Sort(lines)
	return lines
}

// readBundle verifies a bundle that is about a wanted entry. What it signs is explained,
// and so is its own entry, if the signer is an identity of the policy. Other files, and
// bundles that are not valid, explain nothing.
func (r *run) readBundle(raw []byte, wanted map[string]bool) {
	bundle, err := verify.Read(raw)
	if err != nil {
		return
	}
	sum := bundle.Digest
	if bundle.IsAttestation() {
		pae := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(bundle.PayloadType), bundle.PayloadType, len(bundle.Payload), bundle.Payload))
		sum = pae[:]
	}
	content, payload := hex.EncodeToString(sum), sha256.Sum256(bundle.Payload)
	inside := hex.EncodeToString(payload[:]) // what entries of kind dsse and intoto have
	if !wanted[content] && (!bundle.IsAttestation() || !wanted[inside]) && !slices.ContainsFunc(bundle.Entries, func(e verify.SaidEntry) bool {
		return wanted[fmt.Sprintf("%x/%d", e.LogID, e.LogIndex)]
	}) {
		return
	}
	var e verify.Evidence
	if bundle.IsAttestation() {
		e, err = r.Gate.Verifier().Attestation(raw)
	} else {
		signed, no := digest.ParseMap(map[string]string{fmt.Sprintf("sha%d", 8*len(sum)): content})
		if no != nil || signed.IsZero() {
			signed = digest.SetOf(sum) // compares nothing: what is signed is a digest of SHA-384
		}
		e, err = r.Gate.Verifier().BlobSHA384(raw, signed, sum)
	}
	if err == nil && r.ours.Has(e) {
		r.known[content], r.known[fmt.Sprintf("%s/%d", e.Log(), e.LogIndex())] = true, true
		r.known[inside] = r.known[inside] || bundle.IsAttestation()
	}
}

// readJournal verifies the signatures in a journal that are of a wanted content: a run
// writes them before the log has them.
func (r *run) readJournal(path string, wanted map[string]bool) error {
	entries, err := journal.Read(path)
	if err != nil {
		return err
	}
	kept, err := sign.Recall(entries)
	for _, e := range entries { // "builder statement sha256:…"
		if _, content, is := strings.Cut(e.Subject, " sha256:"); is && err == nil && wanted[content] && !r.known[content] {
			_, r.known[content] = r.ours.Signer(kept.SignerOf(e.Subject))
		}
	}
	return err
}
