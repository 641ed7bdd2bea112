package mirror

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/marker"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Limits: artifacts of a place that are read at a time, and after how many
// without an answer the place is no longer asked.
const atOnce, maxSilent = 16, 3

// each opens a place and its record, and calls do for each artifact. What that
// returns is recorded, unless it is nil.
func (r *running) each(ctx context.Context, name, what string, mine []int, do func(context.Context, place, int, []byte) (any, error)) (err error) {
	p := place{Audit: r.Audit, name: name}
	to, recorded, err := r.recorded(what + name)
	if err != nil {
		return err
	}
	if to != nil {
		defer func() { err = errors.Join(err, to.Close()) }()
	}
	if mine[0] < len(r.Plan.Edges) {
		p.images, err = r.Images(name)
	} else {
		p.files, err = r.Files(name)
	}
	if err != nil {
		return err
	}
	return atonce.Try(ctx, atOnce, mine, func(ctx context.Context, _, i int) error {
		key := r.artifacts[i].name + "@" + r.artifacts[i].parts[0].Want.String()
		if r.Manifests {
			key += " without layers"
		}
		detail, err := do(ctx, p, i, recorded(key))
		if err = cmp.Or(context.Cause(ctx), err); err == nil && detail != nil && to != nil {
			raw, _ := json.Marshal(detail) // texts and digests
			err = to.Append(ctx, journal.Entry{Time: time.Now(), Act: "look", Subject: key, Detail: raw})
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done++
		r.Progress(r.done, r.all)
		return err
	})
}

// recorded opens the record of a place for this run, and returns the newest answer
// about an artifact. A number sign is in no name but those of shards.
func (r *running) recorded(name string) (*journal.Journal, func(key string) json.RawMessage, error) {
	if r.Record == "" {
		return nil, func(string) json.RawMessage { return nil }, nil
	}
	const end = ".jsonl"
	name = url.PathEscape(name)
	own := name + end
	if r.Shard.Of > 1 {
		own = name + "#" + strings.ReplaceAll(r.Shard.String(), "/", "-of-") + end
	}
	to, err := journal.Open(filepath.Join(r.Record, own))
	if err != nil {
		return nil, nil, err
	}
	entries := to.Entries()
	if own == name+end {
		shards, _ := fs.Glob(os.DirFS(r.Record), name+"#*"+end) // the pattern is valid
		for _, shard := range shards {
			more, wrong := journal.Read(filepath.Join(r.Record, shard))
			entries, err = append(entries, more...), cmp.Or(err, wrong)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, to.Close())
	}
	slices.SortStableFunc(entries, func(a, b journal.Entry) int { return a.Time.Compare(b.Time) })
	if len(entries) > 0 && (r.oldest.IsZero() || entries[0].Time.Before(r.oldest)) {
		r.oldest = entries[0].Time
	}
	newest := make(map[string]int, len(entries))
	for i, e := range entries {
		newest[e.Subject] = i
	}
	return to, func(key string) json.RawMessage {
		if i, there := newest[key]; there {
			return entries[i].Detail
		}
		return nil
	}, nil
}

// look judges what is recorded of an artifact or, if an answer lacks, asks. An
// artifact without an answer is not recorded; of one that is whole, what was wanted.
func (r *running) look(ctx context.Context, p place, t *tally, i int, recorded []byte) (detail any, err error) {
	a, seen := r.artifacts[i], map[string]answer{}
	r.mu.Lock()
	down := t.row >= maxSilent
	if string(recorded) == a.wanted {
		defer r.mu.Unlock()
		t.counts[whole], t.row = t.counts[whole]+len(a.parts), 0
		return nil, nil
	}
	r.mu.Unlock()
	if bytes.HasPrefix(recorded, []byte("{")) { // else other parts were wanted
		if err := json.Unmarshal(recorded, &seen); err != nil {
			return nil, verdict.Wrap(verdict.ConfigParse, "the record of "+t.place, err)
		}
	}
	first := a.parts[0].name()
	if had := a.judge(seen, func(part, state) {}); had[silent]+had[denied] > 0 {
		fresh := map[string]answer{first: {Why: "no answer several times in a row, so this run does not ask again"}}
		if !down {
			p.look(ctx, a, fresh)
		}
		if fresh[first].Kind != "" || seen[first].Kind == "" {
			seen = fresh
		}
		if had = a.judge(seen, func(part, state) {}); had[whole] == len(a.parts) {
			detail = json.RawMessage(a.wanted)
		} else if fresh[first].Kind != "" {
			detail = fresh
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.add(i, a, seen)
	return detail, nil
}

// refer finds the evidence about an artifact at the reference: bundles by signers
// that the policy names and, of images and their platforms, the tags of older
// clients. Anyone may attach anything, so mirrors need no other referrer. Of a
// release.yaml, it finds the names of the markers.
func (r *running) refer(ctx context.Context, p place, i int, recorded []byte) (any, error) {
	a, found := &r.artifacts[i], []part{}
	sum := a.parts[0].Want
	q := policy.Question{Stage: policy.Published, Class: plan.Binary, Subject: a.name, Bytes: digest.Set{SHA256: sum}}
	var err error
	switch {
	case r.Plan.Release != nil && p.images == nil && (a.name != plan.ConfigName || r.Markers == ""):
		return nil, nil // the plan lists the evidence
	case recorded != nil:
		err = json.Unmarshal(recorded, &found)
	case p.images != nil:
		var node *registry.Node
		if node, err = p.target(a.name, sum).Graph(ctx, sum.String()); err == nil {
			err = node.Walk(func(n *registry.Node) (err error) {
				found, err = p.attached(ctx, a.name, n.Descriptor.Digest, found)
				return err
			})
		}
	case r.Plan.Release != nil:
		if found, err = p.marked(ctx, sum); verdict.OutcomeOf(err) == verdict.Malformed { // such as a parameter without a default
			r.unmarked = verdict.FindingOf(a.name, err).Message
			return nil, nil // the verdict says that the markers are not compared
		}
	case len(a.with) == 0 && a.parts[0].lost == missing:
		raw, wrong := store.Read(ctx, p.files, a.name+gate.BundleSuffix, verify.MaxBundle)
		if wrong == nil && r.Judge.Counts(raw, q) {
			found = append(found, part{Name: gate.BundleSuffix, Want: digest.Of(digest.SHA256, raw)})
		} else if !isAbsent(wrong) {
			err = wrong
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, errNotAsked): // so the places lack an answer
		a.parts = append(a.parts, part{Name: " (its evidence at the reference)", lost: silent})
		return nil, nil
	case r.Plan.Release != nil && p.images == nil:
		r.markers = append(r.markers, found...)
	case len(found)+len(a.with) == 0 && a.parts[0].lost == missing && r.Plan.Release == nil:
		r.unproven = append(r.unproven, p.name+a.name)
	default:
		a.parts = append(a.parts, found...)
	}
	return found, err
}

// Limited is a transport that sends so many requests, and then none. A page for
// people, such as a login page, is no answer.
type Limited struct {
	Next http.RoundTripper
	Left atomic.Int64
}

// RoundTrip implements [http.RoundTripper].
func (l *Limited) RoundTrip(req *http.Request) (*http.Response, error) {
	if l.Left.Add(-1) < 0 {
		return nil, errNotAsked
	}
	resp, err := l.Next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || strings.HasPrefix(path.Ext(req.URL.Path), ".htm") {
		return resp, err
	}
	_ = resp.Body.Close()
	return nil, errors.New("the answer is a page for people, such as a login page")
}

func isAbsent(err error) bool {
	return errors.Is(err, registry.ErrNotFound) || errors.Is(err, store.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
}

// isDenied reports whether a place denied access: 401 and 403.
func isDenied(err error) bool {
	var answer *ggcr.Error
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrPrivate) ||
		errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden)
}

// place is a registry or a place of files.
type place struct {
	Audit
	name   string
	images *registry.Remote
	files  store.Place
}

// target names a manifest to the registry.
func (p place) target(name string, d digest.Digest) registry.Target {
	return registry.Target{Source: p.images, Repository: name[1:], Digest: d}
}

// attached appends the evidence about a manifest that counts.
func (p place) attached(ctx context.Context, name string, of digest.Digest, found []part) ([]part, error) {
	q := policy.Question{Stage: policy.Published, Class: plan.Image, Subject: name, Bytes: digest.Set{SHA256: of}}
	_, err := registry.EachBundle(ctx, p.target(name, of), func(referrer registry.Descriptor, raw []byte) {
		if p.Judge.Counts(raw, q) {
			found = append(found, part{Name: "@", Want: referrer.Digest, Of: of})
		}
	})
	for _, suffix := range []string{registry.SuffixSignatures, registry.SuffixAttestations} {
		layers, wrong := p.list(ctx, name, of, suffix)
		err = cmp.Or(err, wrong)
		for d := range layers {
			found = append(found, part{Name: "@", Want: d, Of: of, Attached: suffix})
		}
	}
	return found, err
}

// marked returns the markers that the release.yaml at the reference names.
func (p place) marked(ctx context.Context, config digest.Digest) (found []part, err error) {
	v, err := version.Parse(p.Plan.Release.Version)
	if err != nil {
		return nil, err
	}
	names, err := marker.Named(ctx, p.files, config, v, nil)
	return slice.Map(names, func(name string) part { return part{Name: name, Want: digest.Of(digest.SHA256, []byte(v.String()))} }), err
}

// look asks about each part of an artifact.
func (p place) look(ctx context.Context, a artifact, seen map[string]answer) {
	lists := map[string]map[digest.Digest]bool{}
	for i, one := range a.parts {
		name := one.name()
		switch {
		case one.lost == silent: // it is not known what to ask for
		case p.images == nil:
			seen[name] = p.file(ctx, a, one)
		case i == 0:
			seen[name] = p.manifest(ctx, a.name, one.Want, !p.Manifests)
		case one.Of.IsZero():
			d, err := p.images.Resolve(ctx, a.name[1:], name[1:])
			seen[name] = p.answer(ctx, a.name, d.Digest, err)
		case seen[a.parts[0].name()].Kind != got: // the image is not there
		default:
			seen[name] = p.evidence(ctx, a.name, one, lists)
		}
		if i == 0 && (seen[name].Kind == "" || seen[name].Kind == refused) {
			return // its other answers do not count
		}
	}
}

// evidence asks for a piece of evidence in a registry. It must also be in a list,
// each of which is read once.
func (p place) evidence(ctx context.Context, name string, one part, lists map[string]map[digest.Digest]bool) answer {
	tag, err := registry.AttachedTag(one.Of, one.Attached), error(nil)
	if lists[tag] == nil {
		if lists[tag], err = p.list(ctx, name, one.Of, one.Attached); err != nil {
			delete(lists, tag)
			return p.answer(ctx, name, digest.Digest{}, err)
		}
	}
	is := answer{Kind: got, Got: one.Want} // of a tag, the bytes were read for the list
	if one.Attached == "" {
		is = p.manifest(ctx, name, one.Want, true)
	}
	if is.Kind == got && !lists[tag][one.Want] {
		is = answer{Kind: none, Why: "clients do not find it: neither a list of referrers nor the tag " + tag + " names it"}
	}
	return is
}

// file asks for a file.
func (p place) file(ctx context.Context, a artifact, one part) answer {
	name := a.name + one.Name
	body, _, err := p.files.Open(ctx, name)
	if err == nil {
		defer body.Close()
		var set digest.Set
		if set, _, err = digest.Sum(body); err == nil && !set.SHA256.Equal(one.Want) {
			err = &digest.MismatchError{Want: one.Want, Got: set.SHA256}
		}
	}
	is := p.answer(ctx, name, one.Want, err)
	if err != nil && is.Kind == got && (a.marker && one.Name == "" || p.Plan.Release != nil && name == releasemanifest.Name) {
		return p.moved(ctx, a, is)
	}
	return is
}

// moved is the answer about bytes that are replaced by newer ones: the version in a
// marker, and the manifest of a release, whose identity signs each revision. What
// is newer than the plan is whole.
func (p place) moved(ctx context.Context, a artifact, is answer) answer {
	var held version.Version
	var isOld, isOther bool
	var why string
	var err error
	if a.marker {
		held, err = marker.Read(ctx, p.files, a.name)
		isOld, why = a.version.IsZero() || held.Less(a.version), "the marker holds "+held.String()
	} else {
		var m manifest.Manifest
		var e verify.Evidence
		raw, wrong := store.Read(ctx, p.files, a.name, verify.MaxBundle)
		if err = wrong; err == nil {
			e, err = p.Judge.Verifier.Attestation(raw)
		}
		if err == nil {
			m, _, err = p.Judge.Policy.ManifestFrom(e, func(name string) ([]byte, error) { return store.Read(ctx, p.files, name, manifest.MaxPage) })
		}
		of, revision := p.Plan.Release, max(1, m.Revision)
		isOther = m.Name != of.Name || m.Version.String() != of.Version || revision == of.Revision
		isOld, why = revision < of.Revision, fmt.Sprintf("revision %d of the manifest, and the plan has revision %d", revision, of.Revision)
	}
	switch {
	case verdict.OutcomeOf(err) == verdict.Unavailable:
		return answer{Why: err.Error()}
	case err != nil || isOther:
		return is
	case isOld:
		return answer{Kind: older, Why: why}
	}
	return answer{Kind: got, Got: a.parts[0].Want}
}

// manifest reads what a digest names, with all manifests of an index and, if
// wanted, their blobs.
func (p place) manifest(ctx context.Context, name string, d digest.Digest, blobs bool) answer {
	node, err := p.target(name, d).Graph(ctx, d.String())
	if err == nil && blobs {
		_, err = registry.VerifyBlobs(ctx, p.images, name[1:], node)
	}
	return p.answer(ctx, name, d, err)
}

// list returns the referrers of a manifest, or the layers of the tag that attaches
// evidence to it, whose bytes are then read.
func (p place) list(ctx context.Context, name string, of digest.Digest, suffix string) (map[digest.Digest]bool, error) {
	all := map[digest.Digest]bool{}
	if suffix == "" {
		referrers, err := p.images.Referrers(ctx, name[1:], of)
		for _, d := range referrers {
			all[d.Digest] = true
		}
		return all, err
	}
	layers, err := registry.AttachedTo(ctx, p.images, name[1:], of, suffix)
	for _, l := range layers {
		hash, wrong := l.Digest()
		d, bad := digest.Parse(hash.String())
		all[d], err = true, cmp.Or(err, wrong, bad)
	}
	return all, err
}

// answer is the answer about something with the digest d, or the error. For other
// bytes than those that were wanted, it asks for something that cannot exist: a
// place that has that, too, shows one page for everything.
func (p place) answer(ctx context.Context, name string, d digest.Digest, err error) answer {
	var form *registry.FormError
	var mismatch *digest.MismatchError
	is := answer{Kind: got, Got: d}
	switch {
	case err == nil:
		return is
	case isAbsent(err):
		return answer{Kind: none, Why: err.Error()}
	case isDenied(err):
		return answer{Kind: refused, Why: err.Error()}
	case errors.As(err, &mismatch):
		is.Got = mismatch.Got
	case errors.As(err, &form) && !form.Digest.Equal(d):
		is.Got = form.Digest
	case verdict.FindingOf("", err).Code != verdict.Tampered:
		return answer{Why: err.Error()}
	default:
		is.Got = digest.Digest{} // other bytes, and it is not known which
	}
	const nowhere = "waybill-checks-that-this-does-not-exist"
	if p.images != nil {
		_, err = p.images.Resolve(ctx, name[1:], digest.Of(digest.SHA256, []byte(nowhere)).String())
	} else if body, _, wrong := p.files.Open(ctx, path.Join(path.Dir(name), nowhere)); wrong != nil {
		err = wrong
	} else {
		err = body.Close()
	}
	if !isAbsent(err) && (p.images != nil || !isDenied(err)) { // a bucket may hide what is not there
		return answer{Why: fmt.Sprintf("other bytes, but the place does not say that an object is missing which cannot be there (%v)", err)}
	}
	return is
}
