package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Limits: artifacts of a place that are read at a time, and after how many
// without an answer the place is no longer asked.
const atOnce, maxSilent = 16, 3

// evidenceSuffix is how the name of a file ends that is evidence about the file of
// the name before, or its checksum.
var evidenceSuffix = regexp.MustCompile(`\.(sigstore\.json|spdx\.json|sig|cert|sha256|sha512)$`)

// Audit asks the destinations of a plan what they have.
type Audit struct {
	Plan     promotionplan.Plan
	Verifier *verify.Verifier
	Policy   policy.Policy
	Images   func(prefix string) (*registry.Remote, error)
	Files    func(uri string) (store.Place, error)
	// Record is a directory with the answers of earlier runs, which are not asked
	// for again, and of this one; empty for none.
	Record string
	// Manifests leaves out the layers of images.
	Manifests bool
	Progress  func(done, of int)
}

// running is an audit in progress.
type running struct {
	Report
	artifacts []artifact // of the edges, then of the files

	mu        sync.Mutex // owns done, unproven and the tallies
	done, all int
}

// Run reads the reference, and then one place after the other.
func (a Audit) Run(ctx context.Context) (Report, error) {
	r := &running{Report: Report{Audit: a}}
	sources, places := map[string][]int{}, map[string][]int{} // indexes of artifacts
	add := func(a artifact, source string, destinations []string) {
		sources[source] = append(sources[source], len(r.artifacts))
		for _, to := range destinations {
			places[to] = append(places[to], len(r.artifacts))
		}
		r.artifacts = append(r.artifacts, a)
	}
	for i, e := range a.Plan.Edges {
		one := artifact{name: "/" + e.Image, parts: []part{{Name: "@" + e.Digest.String(), Want: e.Digest, lost: missing}}, others: map[digest.Digest]version.Version{}}
		if i > 0 && a.Plan.Edges[i-1].Route == e.Route && a.Plan.Edges[i-1].Image == e.Image {
			one.others = r.artifacts[i-1].others
		}
		one.version, _ = version.Parse(gate.VersionOf(e.Tags)) // zero without one
		one.others[e.Digest] = one.version
		for _, tag := range e.Tags {
			one.parts = append(one.parts, part{Name: ":" + tag, Want: e.Digest, lost: missing})
		}
		add(one, a.Plan.Routes[e.Route].Source, a.Plan.Routes[e.Route].Destinations)
	}
	mains := map[promotionplan.File]int{} // index, by store and name
	for _, f := range a.Plan.Files {
		one, suffix := artifact{name: f.Name, parts: []part{{Want: f.Digest, lost: missing}}}, evidenceSuffix.FindString(f.Name)
		if main, there := mains[promotionplan.File{Store: f.Store, Name: strings.TrimSuffix(f.Name, suffix)}]; there {
			of := &r.artifacts[main]
			of.parts, of.with = append(of.parts, part{Name: suffix, Want: f.Digest}), append(of.with, len(r.artifacts))
			r.artifacts = append(r.artifacts, one)
			continue
		}
		if mains[promotionplan.File{Store: f.Store, Name: f.Name}] = len(r.artifacts); suffix != "" {
			one.parts[0].lost = dropped
		}
		add(one, a.Plan.Stores[f.Store].Source, a.Plan.Stores[f.Store].Destinations)
	}
	e := a.Plan.Extent()
	r.all = e.Moves + e.Copies
	for _, mine := range sources {
		r.all += len(mine)
	}
	for source, mine := range sources {
		if err := r.each(ctx, source, "evidence of ", mine, r.refer); err != nil {
			return Report{}, err
		}
	}
	for to, mine := range places {
		t := &tally{place: to, counts: map[state]int{}}
		r.places = append(r.places, t)
		if err := r.each(ctx, to, "", mine, func(ctx context.Context, p place, i int, recorded []byte) (any, error) {
			return r.look(ctx, p, t, i, recorded)
		}); err != nil {
			return Report{}, err
		}
	}
	slices.SortFunc(r.places, func(a, b *tally) int { return cmp.Compare(a.place, b.place) })
	slices.Sort(r.unproven)
	return r.Report, nil
}

// each opens a place and its record, and calls do for each artifact. What that
// returns is recorded, unless it is nil.
func (r *running) each(ctx context.Context, name, what string, mine []int, do func(context.Context, place, int, []byte) (any, error)) (err error) {
	recorded, to, p := map[string]json.RawMessage{}, (*journal.Journal)(nil), place{name: name, manifests: r.Manifests}
	if r.Record != "" {
		if to, err = journal.Open(filepath.Join(r.Record, url.PathEscape(what+name)+".jsonl")); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Close()) }()
		for _, e := range to.Entries() {
			if recorded[e.Subject] = e.Detail; r.oldest.IsZero() || e.Time.Before(r.oldest) {
				r.oldest = e.Time
			}
		}
	}
	if mine[0] < len(r.Plan.Edges) {
		p.images, err = r.Images(name)
	} else {
		p.files, err = r.Files(name)
	}
	if err != nil {
		return err
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, i := range mine {
		group.Go(func() error {
			key := fmt.Sprintf("%s@%s%s", r.artifacts[i].name, r.artifacts[i].parts[0].Want, map[bool]string{true: " without layers"}[r.Manifests])
			detail, err := do(inner, p, i, recorded[key])
			if err = cmp.Or(context.Cause(inner), err); err == nil && detail != nil && to != nil {
				raw, _ := json.Marshal(detail) // texts and digests
				err = to.Append(inner, journal.Entry{Time: time.Now(), Act: "look", Subject: key, Detail: raw})
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.done++
			r.Progress(r.done, r.all)
			return err
		})
	}
	return group.Wait()
}

// look judges what is recorded of an artifact or, if an answer lacks, asks. An
// artifact without an answer is not recorded.
func (r *running) look(ctx context.Context, p place, t *tally, i int, recorded []byte) (detail any, err error) {
	a, seen := r.artifacts[i], map[string]answer{}
	if recorded != nil {
		if err := json.Unmarshal(recorded, &seen); err != nil {
			return nil, verdict.Wrap(verdict.ConfigParse, "the record of "+t.place, err)
		}
	}
	r.mu.Lock()
	down := t.row >= maxSilent
	r.mu.Unlock()
	if bytes := a.parts[0].Name; a.judge(seen, func(part, state) {})[silent] > 0 {
		fresh := map[string]answer{bytes: {Why: "no answer several times in a row, so this run does not ask again"}}
		if !down {
			p.look(ctx, a, fresh)
		}
		if fresh[bytes].Kind != "" {
			detail = fresh
		}
		if detail != nil || seen[bytes].Kind == "" {
			seen = fresh
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.add(i, a, seen)
	return detail, nil
}

// refer finds the evidence about an artifact at the reference: bundles by signers
// that the policy names and, of images and their platforms, the tags of older
// clients. Anyone may attach anything, so mirrors need no other referrer.
func (r *running) refer(ctx context.Context, p place, i int, recorded []byte) (any, error) {
	a, found := &r.artifacts[i], []part{}
	bytes := a.parts[0].Want
	counts := func(raw []byte, of digest.Digest) bool {
		said, err := verify.Read(raw)
		var e verify.Evidence
		if err == nil && said.IsAttestation() {
			if e, err = r.Verifier.Attestation(raw); err != nil || !e.CoversBytes(of) {
				return false
			}
		} else if err == nil {
			e, err = r.Verifier.Blob(raw, digest.Set{SHA256: of})
		}
		if err == nil {
			_, err = r.Policy.Acts(e, policy.Question{Stage: policy.Published, Class: map[bool]plan.Class{true: plan.Image, false: plan.Binary}[p.images != nil], Subject: a.name})
		}
		return err == nil
	}
	var err error
	switch {
	case recorded != nil:
		err = json.Unmarshal(recorded, &found)
	case p.images == nil && len(a.with) == 0 && a.parts[0].lost == missing && r.Plan.Release == nil:
		raw, wrong := store.Read(ctx, p.files, a.name+gate.BundleSuffix, verify.MaxBundle)
		if err = wrong; isAbsent(err) {
			err = nil
		} else if err == nil && counts(raw, bytes) {
			found = append(found, part{Name: gate.BundleSuffix, Want: digest.Of(digest.SHA256, raw)})
		}
	case p.images != nil:
		node, wrong := p.graph(ctx, a.name, bytes)
		if err = wrong; err != nil {
			break
		}
		err = node.Walk(func(n *registry.Node) error {
			of := n.Descriptor.Digest
			_, err := registry.EachBundle(ctx, registry.Target{Source: p.images, Repository: a.name[1:], Digest: of}, func(referrer registry.Descriptor, raw []byte) {
				if counts(raw, of) {
					found = append(found, part{Name: "@" + referrer.Digest.String(), Want: referrer.Digest, Of: of})
				}
			})
			for _, suffix := range []string{registry.SuffixSignatures, registry.SuffixAttestations} {
				layers, wrong := p.list(ctx, a.name, of, suffix)
				err = cmp.Or(err, wrong)
				for d := range layers {
					found = append(found, part{Name: "@" + d.String(), Want: d, Of: of, Attached: suffix})
				}
			}
			return err
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.parts = append(a.parts, found...); len(found)+len(a.with) == 0 && a.parts[0].lost == missing && r.Plan.Release == nil {
		r.unproven = append(r.unproven, p.name+a.name)
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
		return nil, errors.New("not asked: the limit of requests was reached")
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

// place is a registry or a place of files.
type place struct {
	name      string
	images    *registry.Remote
	files     store.Place
	manifests bool // leave out layers
}

// look asks about each part of an artifact.
func (p place) look(ctx context.Context, a artifact, seen map[string]answer) {
	lists := map[string]map[digest.Digest]bool{}
	for i, one := range a.parts {
		switch {
		case p.images == nil:
			seen[one.Name] = p.file(ctx, a.name+one.Name, one.Want)
		case i == 0:
			seen[one.Name] = p.manifest(ctx, a.name, one.Want, !p.manifests)
		case one.Of.IsZero():
			d, err := p.images.Resolve(ctx, a.name[1:], one.Name[1:])
			seen[one.Name] = p.answer(ctx, a.name, d.Digest, err)
		case seen[a.parts[0].Name].Kind != got: // the image is not there
		default:
			tag, err := registry.AttachedTag(one.Of, one.Attached), error(nil)
			if lists[tag] == nil {
				lists[tag], err = p.list(ctx, a.name, one.Of, one.Attached)
			}
			is := answer{Kind: got, Got: one.Want} // of a tag, the bytes were read for the list
			if one.Attached == "" && err == nil {
				is = p.manifest(ctx, a.name, one.Want, true)
			}
			if is.Kind == got && !lists[tag][one.Want] {
				is = answer{Kind: none, Why: "clients do not find it: neither a list of referrers nor the tag " + tag + " names it"}
			}
			if err != nil {
				is = p.answer(ctx, a.name, digest.Digest{}, err)
				delete(lists, tag)
			}
			seen[one.Name] = is
		}
		if i == 0 && seen[one.Name].Kind == "" {
			return // its other answers do not count
		}
	}
}

func (p place) file(ctx context.Context, name string, want digest.Digest) answer {
	body, _, err := p.files.Open(ctx, name)
	if err == nil {
		defer body.Close()
		var set digest.Set
		if set, _, err = digest.Sum(body); err == nil && !set.SHA256.Equal(want) {
			err = &digest.MismatchError{Want: want, Got: set.SHA256}
		}
	}
	return p.answer(ctx, name, want, err)
}

func (p place) graph(ctx context.Context, name string, d digest.Digest) (*registry.Node, error) {
	at, err := p.images.Resolve(ctx, name[1:], d.String())
	if err != nil {
		return nil, err
	}
	return registry.Graph(ctx, p.images, name[1:], at)
}

// manifest reads what a digest names, with all manifests of an index and, if
// wanted, their blobs.
func (p place) manifest(ctx context.Context, name string, d digest.Digest, blobs bool) answer {
	node, err := p.graph(ctx, name, d)
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
	var tampered *registry.TamperedError
	var form *registry.FormError
	var mismatch *digest.MismatchError
	is := answer{Kind: got, Got: d}
	switch {
	case err == nil:
		return is
	case isAbsent(err):
		return answer{Kind: none, Why: err.Error()}
	case errors.As(err, &mismatch):
		is.Got = mismatch.Got
	case errors.As(err, &form) && !form.Digest.Equal(d):
		is.Got = form.Digest
	case !errors.As(err, &tampered):
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
	if !isAbsent(err) && !errors.Is(err, store.ErrPrivate) { // a bucket may hide what is not there
		return answer{Why: fmt.Sprintf("other bytes, but the place does not say that an object is missing which cannot be there (%v)", err)}
	}
	return is
}
