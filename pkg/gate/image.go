package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ImageRequest asks about images in registries, each on its own.
type ImageRequest struct {
	Images []Image
	Ask    Ask
	// Platform narrows an index to one of its platforms ("linux/amd64"). The
	// verdict is then partial.
	Platform string
	// ByIndex has evidence about an index count for the manifests that it lists by
	// their digests. With a Platform, evidence about either is then enough.
	ByIndex bool
	Now     time.Time
	// Finder completes signatures in legacy forms.
	Finder rekorv1.Finder
}

// Image names one image. If there is a Digest, the digest is judged, and the
// tag must name it.
type Image struct {
	Source     registry.Source
	Name       string // as the user wrote it, for messages
	Repository string
	Tag        string
	Digest     digest.Digest
	// To is the repository to which the image goes, as HOST/PATH, because an
	// exception applies to one destination. Empty if it goes nowhere; then no
	// exception applies.
	To string
}

// Reference names the image in its repository: by digest if there is one, else
// by tag.
func (i Image) Reference() string {
	if !i.Digest.IsZero() {
		return i.Digest.String()
	}
	return i.Tag
}

// path is the whole name of the repository, if the user wrote it: a source may
// begin below the host.
func (i Image) path() string {
	name, _, _ := strings.Cut(i.Name, "@")
	if at := strings.LastIndexByte(name, '/'); at >= 0 {
		last, _, _ := strings.Cut(name[at:], ":")
		name = name[:at] + last
	}
	if strings.HasSuffix("/"+name, "/"+i.Repository) {
		return name
	}
	return i.Repository
}

// Images decides about single images. A tag is resolved once; after that only
// digests count. The index needs evidence, and so does every manifest in it,
// unless [ImageRequest.ByIndex] is set: a machine that pulls one platform runs a
// manifest without the index.
func Images(ctx context.Context, req ImageRequest) *verdict.Verdict {
	question := fmt.Sprintf("%d images", len(req.Images))
	if len(req.Images) == 1 {
		question = "image " + req.Images[0].Name
	}
	j := req.Ask.begin(question, req.Now, "tag", "every manifest", "signature", "identity", "binding")
	if err := req.check(); err != nil {
		return j.endUnknown("request", err)
	}
	if req.Ask.Type == "" {
		req.Ask.Type = intoto.CosignSignature
		j.rule = byIdentity{req.Ask}
	}
	for _, image := range req.Images {
		req.judge(ctx, j, image)
	}
	j.v.Scope.Left = union(nil, j.v.Scope.Left)
	return j.endCounted()
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

// judge judges the index, and then each manifest in it: by the evidence of the
// index if that was accepted, else by its own.
func (r ImageRequest) judge(ctx context.Context, j *judge, image Image) {
	image, done := remembered(image)
	defer done()
	defer image.ahead(ctx)()
	manifests, f := r.collect(ctx, image)
	j.addCounted(f, "")
	if len(manifests) == 0 {
		return
	}
	index := r.collectManifest(ctx, image, manifests[0])
	first, single := &index.items[0], r.ByIndex && r.Platform != ""
	var proven bool
	var answer *verdict.Verdict
	if r.ByIndex && first.err == nil && len(manifests) > 1 {
		first.answer = j.rule.Decide(*first)
		switch proven = first.answer.Outcome() == verdict.Accepted; {
		case proven && single:
			answer = first.answer
		case single:
			index.note("%s: no evidence about the index was accepted, so the platform needs its own: %v", image.Name, first.answer.Err())
		}
	}
	if single {
		index.items = nil
	}
	j.addCounted(index, "")
	for _, m := range manifests[1:] {
		if proven {
			j.addCounted(m.listed(answer), "")
			continue
		}
		j.addCounted(r.collectManifest(ctx, image, m), "")
	}
	if proven {
		j.v.Note("%s: %s proven by the evidence of the index, which lists them by digest", image.Name, plural.Of(len(manifests)-1, "manifest"))
	}
}

// collect reads an image and its manifests: all, or the index and those of the
// requested platform.
func (r ImageRequest) collect(ctx context.Context, image Image) (manifests []imageManifest, f facts) {
	manifests, left, err := image.manifests(ctx, r.Platform)
	if err != nil {
		f.unknown(image.Name, err)
		return nil, f
	}
	f.addInputs(verdict.Input{Name: image.Name, Digest: manifests[0].Descriptor.Digest})
	if image.Tag != "" {
		f.note("%s: name and tag are not verified, because the verified evidence names only bytes", image.Name)
	}
	if r.Platform != "" && len(manifests) < 2 {
		f.unknown(image.Name, verdict.Refuse(verdict.Platform, image.Name, "the image has no platform %s; its platforms: %s", r.Platform, cmp.Or(strings.Join(left, ", "), "none")))
		return nil, f
	}
	for _, platform := range left {
		f.leave("platform " + platform)
	}
	return platforms(manifests, &f), f
}

// collectManifest reads the evidence about one manifest: its referrers and, if
// these do not meet the request, its legacy tag.
func (r ImageRequest) collectManifest(ctx context.Context, image Image, m imageManifest) (f facts) {
	i := item{question: policy.Question{Subject: m.name, Bytes: digest.Set{SHA256: m.Descriptor.Digest}}, err: m.platform}
	tag := registry.SuffixAttestations
	if r.Ask.Type == intoto.CosignSignature {
		tag = registry.SuffixSignatures
	}
	if i.err == nil {
		var e imageEvidence
		e, i.err = evidenceReader{signer: r.Ask.Signer, finder: r.Finder}.read(ctx, image.target(m), func(suffix string, found []verify.Evidence) bool {
			return suffix == tag && !slices.ContainsFunc(found, func(e verify.Evidence) bool { _, err := r.Ask.judge(e, i); return err == nil })
		})
		e.noteUnread(&f, m.name)
		m.noteFile(&f)
		i.evidence, i.invalid = e.all(), slices.Concat(e.why, e.invalid)
		if down := e.unavailable[tag]; down != nil {
			i.invalid = append(i.invalid, down)
		}
	}
	f.items = []item{i}
	return f
}
