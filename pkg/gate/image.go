package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/rekor"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// ImageRequest asks about images in registries, each by itself.
type ImageRequest struct {
	Images []Image
	Ask    Ask
	// Platform narrows an index to one of its platforms ("linux/amd64"). The
	// verdict is then partial.
	Platform string
	Now      time.Time
	// Finder completes signatures in legacy forms.
	Finder rekor.Finder
}

// Image names one image. A Digest, where one is given, is what is judged, and
// a tag beside it must name that.
type Image struct {
	Source     registry.Source
	Name       string // as asked, for messages
	Repository string
	Tag        string
	Digest     digest.Digest
	// To is the repository that it goes to, as HOST/PATH: what is excepted is so
	// in one place. Empty where it goes nowhere; then nothing is excepted.
	To string
}

// Images decides about single images: a tag is resolved once, and from then on
// only digests count. The index and every manifest in it need evidence of
// their own, for a machine that pulls one platform never sees the index again.
func Images(ctx context.Context, req ImageRequest) *verdict.Verdict {
	v := verdict.New(questionOfImages(req.Images), req.Now)
	v.Scope.Checks = []string{"tag", "every manifest", "signature", "identity", "binding"}
	v.Counts.Required = max(1, len(req.Images))
	if err := req.check(); err != nil {
		v.AddError("request", err)
		return v
	}
	nameRoot(v, req.Ask.Signer)
	if req.Ask.Type == "" {
		req.Ask.Type = intoto.CosignSignature
	}
	v.Counts.Required = 0
	for _, image := range req.Images {
		req.decide(ctx, v, image)
	}
	checkClock(v)
	return v
}

func questionOfImages(images []Image) string {
	if len(images) == 1 {
		return "image " + images[0].Name
	}
	return fmt.Sprintf("%d images", len(images))
}

func (r ImageRequest) check() error {
	if len(r.Images) == 0 {
		return verdict.Refuse(verdict.Usage, "images", "no image was named")
	}
	for _, i := range r.Images {
		if i.Source == nil || i.Tag == "" && i.Digest.IsZero() {
			return verdict.Refuse(verdict.Usage, i.Name, "want a registry, and a tag or a digest")
		}
	}
	return r.Ask.check()
}

// decide adds to the verdict what is proven of one image and what is not.
func (r ImageRequest) decide(ctx context.Context, v *verdict.Verdict, image Image) {
	image, done := remembered(image)
	defer done()
	defer image.ahead(ctx)()
	root, err := image.resolve(ctx)
	if err != nil {
		v.Counts.Required++
		v.AddError(image.Name, err)
		return
	}
	v.Inputs = append(v.Inputs, verdict.Input{Name: image.Name, Digest: root.Digest})
	if image.Tag != "" {
		v.Note("%s: name and tag are not verified, for what was verified names bytes alone", image.Name)
	}
	graph, err := registry.Graph(ctx, image.Source, image.Repository, root)
	if err != nil {
		v.Counts.Required++
		v.AddError(image.Name, err)
		return
	}
	nodes, err := r.narrow(v, image, graph)
	v.AddError(image.Name, err)
	v.Counts.Required += max(1, len(nodes))
	for _, n := range nodes {
		proof, err := r.prove(ctx, v, image, n)
		if err != nil {
			v.AddError(image.name(n.Descriptor), err)
			continue
		}
		v.Counts.Verified++
		v.Proofs = append(v.Proofs, proof)
	}
}

// Reference is what names the image in its repository: the digest where there
// is one, else the tag.
func (i Image) Reference() string {
	if !i.Digest.IsZero() {
		return i.Digest.String()
	}
	return i.Tag
}

// remembered is the image in a registry that is asked each thing once. Whoever
// has such a registry already keeps it.
func remembered(i Image) (Image, func()) {
	remote, is := i.Source.(*registry.Remote)
	if !is {
		return i, func() {}
	}
	m := registry.Remember(remote, false)
	i.Source = m
	return i, m.Close
}

// ahead has a registry that is asked each thing once asked for all of it now.
func (i Image) ahead(ctx context.Context) (end func()) {
	if m, is := i.Source.(*registry.Memory); is && !i.Digest.IsZero() {
		return m.Ahead(ctx, i.Repository, i.Digest)
	}
	return func() {}
}

// graph reads the image, and every manifest in it, each once. The image is the
// first of them.
func (i Image) graph(ctx context.Context) ([]*registry.Node, error) {
	d, err := i.resolve(ctx)
	if err != nil {
		return nil, err
	}
	root, err := registry.Graph(ctx, i.Source, i.Repository, d)
	if err != nil {
		return nil, err
	}
	var nodes []*registry.Node
	seen := map[string]bool{}
	err = root.Walk(func(n *registry.Node) error {
		// One image can be listed for several platforms, and each entry must be true.
		if key := n.Descriptor.Digest.String() + " " + n.Descriptor.Platform; !seen[key] {
			seen[key] = true
			nodes = append(nodes, n)
		}
		return nil
	})
	return nodes, err
}

// resolve asks the registry once what is meant.
func (i Image) resolve(ctx context.Context) (registry.Descriptor, error) {
	if i.Digest.IsZero() || i.Tag == "" {
		return i.Source.Resolve(ctx, i.Repository, i.Reference())
	}
	tagged, err := i.Source.Resolve(ctx, i.Repository, i.Tag)
	if err != nil {
		return registry.Descriptor{}, err
	}
	if !tagged.Digest.Equal(i.Digest) {
		return registry.Descriptor{}, &verdict.Error{Finding: verdict.Find(verdict.TagMoved, i.Name, "tag %s names another image", i.Tag).
			Differ(i.Digest.String(), tagged.Digest.String())}
	}
	return tagged, nil
}

// name is how findings call one manifest of the image.
func (i Image) name(d registry.Descriptor) string {
	if d.Platform == "" {
		return i.Name
	}
	return i.Name + " " + d.Platform
}

// narrow lists the manifests that need evidence: all, or the index and those
// of the one platform that was asked.
func (r ImageRequest) narrow(v *verdict.Verdict, image Image, root *registry.Node) ([]*registry.Node, error) {
	var all, kept []*registry.Node
	var left []string
	_ = root.Walk(func(n *registry.Node) error {
		all = append(all, n)
		switch platform := n.Descriptor.Platform; {
		case n == root || platform == r.Platform:
			kept = append(kept, n)
		default:
			left = append(left, platform)
		}
		return nil
	})
	if r.Platform == "" {
		return all, nil
	}
	if len(kept) < 2 {
		return nil, verdict.Refuse(verdict.Platform, image.Name, "it has no platform %s, but %s", r.Platform, strings.Join(append(left, "itself"), ", "))
	}
	for _, platform := range left {
		if what := "platform " + platform; !slices.Contains(v.Scope.Left, what) {
			v.Scope.Left = append(v.Scope.Left, what)
		}
	}
	return kept, nil
}

// prove looks among everything that refers to a manifest for the evidence that
// was asked. What strangers attach is counted and does not block.
func (r ImageRequest) prove(ctx context.Context, v *verdict.Verdict, image Image, n *registry.Node) (verdict.Proof, error) {
	d := n.Descriptor
	if err := registry.CheckPlatform(ctx, image.Source, image.Repository, n); err != nil {
		return verdict.Proof{}, err
	}
	t := target{name: image.name(d), digests: digest.Set{SHA256: d.Digest}}
	var found []proven
	var misses []miss
	heard, err := registry.EachBundle(ctx, registry.Target{Source: image.Source, Repository: image.Repository, Digest: d.Digest}, func(raw []byte) {
		e, err := r.Ask.Signer.verifier.Attestation(raw)
		var proof verdict.Proof
		if err == nil {
			proof, err = r.Ask.judge(e, r.Ask.Type, t)
		}
		if err != nil {
			misses = append(misses, miss{verdict.FindingOf(t.name, err), !e.IsZero() && !r.Ask.Signer.made(e)})
			return
		}
		found = append(found, proven{proof, e})
	})
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return verdict.Proof{}, err
	}
	attached{unread: heard.Unread}.note(v, t.name)
	if len(found) == 0 { // cosign attached signatures by tags before
		byTag, more, err := r.attached(ctx, image, d, t)
		if err != nil {
			return verdict.Proof{}, err
		}
		found, misses = byTag, append(misses, more...)
	}
	if len(found) == 0 {
		return verdict.Proof{}, nearest(t.name, r.Ask.Type, misses)
	}
	if len(misses) > 0 {
		v.Note("%s: %d other bundles refer to it (%s); they count for nothing", t.name, len(misses), tally(misses))
	}
	return r.Ask.rate(v, t, found)
}

// miss is evidence that does not prove what was asked, and why.
type miss struct {
	verdict.Finding
	foreign bool // it holds, and somebody else signed it
}

// nearest explains why nothing was proven: of all the evidence there is, the
// one that came nearest to what was asked says most.
func nearest(name, kind string, misses []miss) error {
	if len(misses) == 0 {
		return verdict.Refuse(verdict.EvidenceMissing, name, "nothing refers to it that could say %s", kind)
	}
	best := misses[0].Finding
	for _, code := range []verdict.Code{verdict.PredicateNone, verdict.Identity, verdict.NotBound, verdict.LogUnasked, verdict.PlaceDown} {
		if i := slices.IndexFunc(misses, func(m miss) bool { return m.Code == code }); i >= 0 {
			best = misses[i].Finding
		}
	}
	if best.Subject != name {
		best.Subject, best.Message = name, best.Subject+": "+best.Message
	}
	if len(misses) > 1 {
		best.Message += fmt.Sprintf(" (of %d bundles that refer to it: %s)", len(misses), tally(misses))
	}
	return &verdict.Error{Finding: best}
}

// tally counts what is not what was asked, by the reason.
func tally(misses []miss) string {
	counts := map[string]int{}
	for _, m := range misses {
		word := "not holding: " + string(m.Code)
		switch {
		case m.foreign:
			word = "by somebody else"
		case m.Code == verdict.PredicateNone:
			word = "saying something else"
		case m.Code == verdict.NotBound:
			word = "about something else"
		}
		counts[word]++
	}
	words := make([]string, 0, len(counts))
	for word, n := range counts {
		words = append(words, fmt.Sprintf("%d %s", n, word))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}
