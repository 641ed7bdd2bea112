package gate

import (
	"context"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/format"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// GitHubRelease asks about a release on GitHub without a manifest of Waybill: what
// is signed about it, against its assets.
type GitHubRelease struct {
	// Repository is https://HOST/OWNER/NAME, as certificates have it, and Issuer the
	// identity provider of its workflows.
	Repository, Tag, Issuer string
	// Files is the release on GitHub, or a recorded one.
	Files store.Place
	// Platform leaves out the files that are named for another one; empty for none.
	Platform string
	// Known finds the entry of a list of builders for evidence; nil knows none.
	Known func(verify.Evidence) (entry slsa.Pair, source string)
	// Roots are one trust root of each trust domain, with logs and without. A bundle
	// is judged by that of its own domain alone.
	Roots []trust.Root
	Now   time.Time

	verifiers map[bool]*verify.Verifier // by whether the domain has logs
	assets    []census.Item
	commits   []string // that the tag names, the commit last; nil if unknown
	bundles   []foundBundle
}

// foundBundle is a bundle: verified, or why it does not count.
type foundBundle struct {
	verify.Evidence
	err    error
	file   string           // the asset that contains it; empty if GitHub's API does
	beside census.Item      // the asset that a plain signature is about
	said   intoto.Statement // unverified
}

// Decide accepts a release of which each asset is signed by a workflow of the
// repository at the tag, or covered by a signed list: GitHub's attestation of an
// immutable release, or a signed checksum file. It is complete only if signed lists
// cover all that the release has, besides the signatures that were used.
func (r GitHubRelease) Decide(ctx context.Context) *verdict.Verdict {
	t := terms{now: r.Now}
	r.verifiers = map[bool]*verify.Verifier{}
	f := facts{checks: []string{"files", "signatures"}}
	for i, root := range r.Roots {
		v, err := verify.New(root)
		f.fail("trust root", err)
		if r.verifiers[!root.IsLogless()] = v; i == 0 || root.IsLab() {
			t.root = root
		}
		f.addInputs(verdict.Input{Name: "trust root", Digest: root.Digest()})
	}
	if len(f.differences) == 0 {
		f.fail(r.Files.URI(), r.collect(ctx, &f))
	}
	j := t.beginBy("release "+r.Tag+" of "+strings.TrimPrefix(r.Repository, "https://"), nil) // each item has its answer
	j.addCounted(f, "")
	return j.endCounted()
}

// collect reads the assets and the bundles about them, and compares them.
func (r *GitHubRelease) collect(ctx context.Context, f *facts) error {
	objects, err := r.Files.List(ctx)
	if err == nil && len(objects) == 0 {
		err = verdict.Refuse(verdict.Missing, r.Files.URI(), "the tag has no published release, or the release has no assets")
	}
	if r.Platform != "" {
		f.leave("other platforms than " + r.Platform)
		objects = slices.DeleteFunc(objects, func(o store.Object) bool { return !r.fits(o.Name) })
	}
	names, subjects, errs := map[string]bool{}, []string(nil), []error(nil)
	for _, o := range objects {
		names[o.Name] = true
	}
	r.assets, errs = hashing{place: r.Files, all: true}.sum(ctx, objects, names, func(o store.Object) int64 { return o.Size })
	for i, a := range r.assets {
		f.fail(a.Name, errs[i])
		subjects = append(subjects, a.Digests.SHA256.String())
	}
	if err != nil || len(f.differences) > 0 {
		return err
	}
	place, is := r.Files.(interface {
		Evidence(ctx context.Context, subjects []string) (commits []string, documents [][]byte, err error)
	})
	if !is {
		return verdict.Refuse(verdict.Usage, "--files", "%s is no release on GitHub; name github+file://DIR with its recorded listing", r.Files.URI())
	}
	commits, documents, err := place.Evidence(ctx, subjects)
	if err != nil {
		return err
	}
	if r.commits = commits; len(commits) == 0 {
		f.note("the release is a recorded one: what the tag names now is not known")
	}
	for _, raw := range documents {
		r.read(raw, foundBundle{})
	}
	for _, a := range r.assets {
		if m := bundleName().FindStringSubmatch(a.Name); m != nil {
			raw, err := store.Read(ctx, r.Files, a.Name, verify.MaxBundle)
			if err != nil {
				return err
			}
			r.read(raw, foundBundle{file: a.Name, beside: r.find(m[1])})
		}
	}
	return r.compare(ctx, f)
}

// find is an asset by its name, or by the name that GitHub gave to one that its label
// names with a directory.
func (r *GitHubRelease) find(name string) census.Item {
	i := slices.IndexFunc(r.assets, func(a census.Item) bool { return a.Name == name || github.Flat(a.Name) == name })
	if i < 0 {
		return census.Item{Name: name}
	}
	return r.assets[i]
}

// bundleName matches assets with bundles; its group is what a plain signature signs.
var bundleName = pattern.Lazy(`\A(.+?)(?:\.sigstore\.json|\.sigstore|\.bundle|\.intoto\.jsonl)\z`)

// read verifies the bundles of a document, each by the root of its own trust domain.
// A plain signature must be about the file beside it.
func (r *GitHubRelease) read(raw []byte, found foundBundle) {
	document, err := format.Read(raw)
	if found.err = err; err != nil {
		r.bundles = append(r.bundles, found)
	}
	for _, one := range document.Entries {
		b := found
		said, err := verify.Read(one.Bundle)
		switch v := r.verifiers[len(said.Entries) > 0]; {
		case err != nil:
			b.err = err
		case v == nil:
			b.err = verdict.Refuse(verdict.ChainUntrusted, b.file, "no trust root of the bundle's trust domain was given")
		case said.IsAttestation():
			b.said, _ = intoto.ParseOpen(said.Payload) // if it is bad, the bundle is refused
			b.Evidence, b.err = v.Attestation(one.Bundle)
		default:
			b.Evidence, b.err = v.Blob(one.Bundle, b.beside.Digests)
		}
		r.bundles = append(r.bundles, b)
	}
}

// admit refuses what no workflow of the repository signed at the tag: that of a fork,
// a branch or a pull request. The builder that it called may have signed for it, if
// the run cannot influence that one: a known builder of level 3.
func (r *GitHubRelease) admit(e verify.Evidence, subject string) error {
	claims := []identity.Demand{{"sourceRepositoryURI": r.Repository}, {"sourceRepositoryRef": "refs/tags/" + r.Tag}}
	if n := len(r.commits); n > 0 {
		claims = append(claims, identity.Demand{"sourceRepositoryDigest": r.commits[n-1]})
	}
	name := e.Identity().Subject
	who, err := identity.Exact(identity.Identity{Issuer: r.Issuer, Subject: name, Type: identity.URI})
	for _, claim := range claims {
		if err == nil {
			err = Signer{who: []identity.Matcher{who}, claims: claim}.admit(e, subject)
		}
	}
	if err != nil {
		return err
	}
	from, at := r.Repository+"/.github/workflows/", "@refs/tags/"+r.Tag
	if by, _ := (Levels{Known: r.Known}).known(e); by.Level < 3 && (!strings.HasPrefix(name, from) || !strings.HasSuffix(name, at)) {
		return &verdict.Error{Finding: verdict.Find(verdict.Identity, subject, "signed by a workflow that is neither of the repository at the tag nor a known builder").
			Differ(from+"…"+at, name).Citing(e.Bundle())}
	}
	return contradicted(e, subject)
}

// weigh says whether a bundle proves an asset, and if it has the name or the bytes of
// it, why it does not. A subject may have a directory before its name.
func (r *GitHubRelease) weigh(b foundBundle, a census.Item) (proves bool, err error) {
	both := b.said.IsZero() && b.beside.Name == a.Name && (b.err != nil || b.Kind() == kindBlob)
	some := both
	for _, s := range b.said.Subjects() {
		named, bound := path.Base(s.Name) == path.Base(a.Name), s.Binds(a.Digests)
		some, both = some || named || bound, both || named && bound
	}
	switch {
	case !some, b.err == nil && isRelease(b.Kind()):
		return false, nil
	case b.err != nil:
		return false, b.err
	case b.Kind() != kindBlob && !strings.HasPrefix(b.Kind(), "https://slsa.dev/provenance/"):
		return false, verdict.Refuse(verdict.PredicateNone, a.Name, "the evidence is no provenance but %s", b.Kind())
	}
	if err := r.admit(b.Evidence, a.Name); err != nil || both {
		return err == nil, err
	}
	return false, &verdict.Error{Finding: verdict.Find(verdict.Tampered, a.Name, "the repository's workflow signed other bytes under this name, or these bytes under another one").
		Differ(subjects(b.Evidence), a.Name+" "+a.Digests.SHA256.String()).Citing(b.Bundle())}
}

// answer judges one asset by the bundles about it, and adds their files to evidence.
func (r *GitHubRelease) answer(a census.Item, evidence map[string]bool) *verdict.Verdict {
	v := verdict.New(a.Name, time.Time{})
	v.Counts.Required = 1
	var misses []miss
	for _, b := range r.bundles {
		if proves, err := r.weigh(b, a); proves {
			v.Proofs, v.Counts.Verified, evidence[b.file] = append(v.Proofs, proofOf(b.Evidence, b.Kind(), a.Name)), 1, true
		} else if err != nil {
			misses = append(misses, miss{Finding: verdict.FindingOf(a.Name, err)})
		}
	}
	switch {
	case len(v.Proofs) > 0 && len(misses) > 0:
		v.Note("%s: ignored other bundles (%s)", a.Name, countByReason(misses))
	case len(v.Proofs) == 0 && len(misses) > 0:
		v.AddError(a.Name, nearest(a.Name, "", misses))
	case len(v.Proofs) == 0:
		v.Add(verdict.Find(verdict.Unsigned, a.Name, "no workflow of %s at %s signed the asset, and no signed list covers it", r.Repository, r.Tag))
	}
	return v
}

// compare judges the assets by the lists and by their own evidence.
func (r *GitHubRelease) compare(ctx context.Context, f *facts) error {
	listed, evidence, answers, whole, open := map[string]verdict.Proof{}, map[string]bool{}, map[string]*verdict.Verdict{}, false, false
	for i, b := range r.bundles {
		if b.err == nil && isRelease(b.Kind()) {
			list, err := r.releaseList(b.Evidence)
			if r.bundles[i].err = err; err == nil { // else it may be about another release with the same asset
				whole = true
				f.refuse(r.cover(list, true, listed, proofOf(b.Evidence, b.Kind(), ""))...)
			}
		}
	}
	for _, a := range r.assets {
		answers[a.Name] = r.answer(a, evidence)
	}
	for _, b := range r.bundles {
		if b.err != nil {
			delete(evidence, b.file)
		}
	}
	for _, a := range r.assets {
		if own := answers[a.Name].Proofs; !whole && sumsName().MatchString(a.Name) && len(own) > 0 { // else it proves nothing
			list, err := r.readSums(ctx, a)
			if err != nil {
				return err
			}
			evidence[a.Name] = true
			f.refuse(r.cover(list, false, listed, own[0])...)
		}
	}
	for _, a := range r.assets {
		v := answers[a.Name]
		by, covered := listed[a.Name]
		switch own := len(v.Proofs) > 0; {
		case covered && !own:
			by.Subject, v = a.Name, verdict.New(a.Name, time.Time{})
			v.Counts, v.Proofs = verdict.Counts{Required: 1, Verified: 1}, []verdict.Proof{by}
		case !covered && evidence[a.Name] && !own:
			continue // a signature needs none
		case !covered && !evidence[a.Name]:
			open = true
		}
		f.items = append(f.items, item{question: policy.Question{Subject: a.Name, Bytes: a.Digests}, answer: v})
	}
	if len(listed) == 0 || open {
		f.leave("a signed list of all assets")
	} else {
		f.checks = append(f.checks, "closed places")
	}
	return nil
}

// cover adds what a list covers, and returns how the assets differ from it: all of
// them, or those that a checksum file names.
func (r *GitHubRelease) cover(list []census.Item, all bool, listed map[string]verdict.Proof, by verdict.Proof) []verdict.Finding {
	for _, i := range list {
		listed[i.Name] = by
	}
	var have []census.Item
	for _, a := range r.assets {
		i := slices.IndexFunc(list, func(i census.Item) bool { return i.Name == a.Name })
		one := census.Item{Name: a.Name, Digests: digest.Set{SHA256: a.Digests.SHA256}}
		if i >= 0 && list[i].Digests.SHA256.IsZero() {
			one.Digests = digest.Set{SHA512: a.Digests.SHA512}
		}
		if all || i >= 0 {
			have = append(have, one)
		}
	}
	return census.Compare(list, have)
}

const olderRelease = "https://in-toto.io/attestation/release/v0.1"

func isRelease(kind string) bool {
	return kind == intoto.Release || kind == olderRelease
}

// releaseList reads an attestation of the release: GitHub must have signed it, in its
// own trust domain, about this repository, tag and commit.
func (r *GitHubRelease) releaseList(e verify.Evidence) (list []census.Item, err error) {
	refuse := func(code verdict.Code, message, want, got string) ([]census.Item, error) {
		return nil, &verdict.Error{Finding: verdict.Find(code, r.Files.URI(), "the attestation of the release %s", message).Differ(want, got).Citing(e.Bundle())}
	}
	signer := identity.Identity{Subject: "https://dotcom.releases.github.com", Type: identity.URI}.WithoutIssuer() // only that domain has such identities
	if e.Identity() != signer {
		return refuse(verdict.Identity, "is not by GitHub in its own trust domain", signer.String(), e.Identity().String())
	}
	var s struct {
		Subject   []intoto.Resource
		Predicate map[string]any
	}
	_ = json.Unmarshal(e.Statement().Raw(), &s) // what cannot be read lacks fields
	p, old := s.Predicate, e.Kind() == olderRelease
	if old != (p["releaseId"] != nil) || old == (p["packageId"] != nil || p["databaseId"] != nil) {
		return refuse(verdict.StatementParse, "has the fields of another version", "the fields of "+e.Kind(), "others")
	}
	purl, _ := p["purl"].(string)
	of, tag, _ := strings.Cut(purl, "@")
	_, name, _ := strings.Cut(strings.TrimPrefix(r.Repository, "https://"), "/")
	if tag, err = url.PathUnescape(tag); err != nil || tag != r.Tag || !strings.EqualFold(of, "pkg:github/"+name) || p["tag"] != nil && p["tag"] != r.Tag {
		return refuse(verdict.PlaceOther, "is about another release", "pkg:github/"+name+"@"+r.Tag, purl)
	}
	commit := ""
	for _, one := range s.Subject {
		set, err := digest.ParseMap(map[string]string{"sha256": one.Digest["sha256"]})
		switch {
		case one.URI == purl && one.Name == "" && commit == "":
			commit = one.Digest["sha1"]
		case err != nil || one.Name == "":
			return refuse(verdict.StatementParse, "has a subject that is no asset", "a name and a SHA-256 digest", one.Name+one.URI)
		case r.fits(one.Name):
			list = append(list, census.Item{Name: r.find(one.Name).Name, Digests: set})
		}
	}
	if commit == "" || len(r.commits) > 0 && !slices.Contains(r.commits, commit) {
		return refuse(verdict.SourceMoved, "names another commit than the tag", strings.Join(r.commits, " "), commit)
	}
	return list, nil
}

// Names and lines of checksum files.
var (
	sumsName = pattern.Lazy(`(?i)(sha-?(256|512)(sums?)?|checksums?)(\.txt)?\z`)
	sumsLine = pattern.Lazy(`\A([0-9a-f]{64}|[0-9a-f]{128}) [ *](?:\./)?(\S+)\z`)
)

// readSums reads a signed checksum file.
func (r *GitHubRelease) readSums(ctx context.Context, sums census.Item) (list []census.Item, err error) {
	raw, err := store.Read(ctx, r.Files, sums.Name, maxDocument)
	if err == nil && !digest.Of(digest.SHA256, raw).Equal(sums.Digests.SHA256) {
		err = verdict.Refuse(verdict.Tampered, sums.Name, "the file changed while it was read")
	}
	for line := range strings.Lines(string(raw)) {
		m := sumsLine().FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			return nil, verdict.Refuse(verdict.StatementParse, sums.Name, "not a checksum file: %.100q", line)
		}
		by := map[int]digest.Algorithm{64: digest.SHA256, 128: digest.SHA512}[len(m[1])]
		sum, _ := digest.ParseHex(by, m[1]) // the pattern is that of a digest
		set := sum.Set()
		for _, a := range r.assets { // the census compares SHA-256
			if sum.Equal(a.Digests.SHA512) {
				set = digest.Set{SHA256: a.Digests.SHA256}
			}
		}
		if r.fits(m[2]) {
			list = append(list, census.Item{Name: r.find(m[2]).Name, Digests: set})
		}
	}
	return list, err
}

// namedFor are the words for systems and processors in names of files, with Go's.
const namedFor = " linux=linux darwin=darwin macos=darwin osx=darwin apple=darwin windows=windows win=windows win32=windows win64=windows freebsd=freebsd " +
	"amd64=/amd64 x64=/amd64 arm64=/arm64 aarch64=/arm64 386=/386 i386=/386 i686=/386 armv6=/arm armv7=/arm armhf=/arm ppc64le=/ppc64le s390x=/s390x riscv64=/riscv64 "

// fits reports whether the name of a file has no word for another platform.
func (r *GitHubRelease) fits(name string) bool {
	name = strings.NewReplacer("x86_64", "amd64", "x86-64", "amd64").Replace(strings.ToLower(name))
	system, processor, _ := strings.Cut(r.Platform, "/")
	return r.Platform == "" || !slices.ContainsFunc(strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune("-_.+ /", c) }), func(word string) bool {
		_, of, is := strings.Cut(namedFor, " "+word+"=")
		return is && !strings.HasPrefix(of, system+" ") && !strings.HasPrefix(of, "/"+processor+" ")
	})
}
