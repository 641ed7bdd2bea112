package seal

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Outlook is what [Sign] and [Run] would do with a workspace as it is now.
type Outlook struct {
	// Signed have a signature that holds, Due are to get one.
	Signed, Due []plan.Artifact
	// Attached are the images that have the tags of the legacy forms, of those
	// that are to have them.
	Attached []plan.Artifact
	// Orders are what is to be signed for those that are due.
	Orders []sign.Order
	// Sealed says that the manifest is signed, of just what is there.
	Sealed bool
	// Findings are what stands against it: without a file there is nothing to
	// sign, and one that nobody planned stops everything.
	Findings []verdict.Finding
}

// Look says what would be signed. Nothing is written, no signature is made and
// nobody is asked. SBOMs are not held against what they describe: that takes
// long, and happens before anything is signed.
func Look(ctx context.Context, req Request) (o Outlook, err error) {
	if err := o.against("", checkExtra(ctx, req)); err != nil {
		return Outlook{}, err
	}
	p, err := provenances(ctx, req)
	if err := o.against("", err); err != nil {
		return Outlook{}, err
	}
	if len(p.bytes) == 0 {
		return o, nil // nothing is proven, so nothing may be signed
	}
	texts, err := sums(ctx, req, p)
	if err := o.against("", err); err != nil {
		return Outlook{}, err
	}
	l := looking{req, p, texts}
	for _, a := range req.Plan.Artifacts {
		look := o.file
		switch _, legacy := a.SignedBySig(); {
		case a.IsImage():
			look = o.image
		case a.Class != plan.Signature, a.IsStatement(), a.IsLegacy() && !legacy: // a certificate comes with its signature
			continue
		}
		if err := o.against(a.Name, look(ctx, l, a)); err != nil {
			return Outlook{}, err
		}
	}
	if len(o.Findings)+len(o.Due) > 0 {
		return o, nil
	}
	if waits, err := unstated(ctx, req); err != nil || waits {
		return o, err
	}
	m, err := newManifest(ctx, req, p)
	if err := o.against("", err); err != nil {
		return Outlook{}, err
	}
	slices.SortFunc(m.Artifacts, func(a, b manifest.Artifact) int { return strings.Compare(a.Name, b.Name) })
	_, o.Sealed = sealed(ctx, req, m)
	return o, nil
}

// against keeps a refusal, and returns what is none: who could not look must
// not say that nothing is there. What is refused twice is told once.
func (o *Outlook) against(name string, err error) error {
	if err == nil {
		return nil
	}
	if verdict.OutcomeOf(err) != verdict.Refused {
		return err
	}
	found := []verdict.Finding{verdict.FindingOf(name, err)}
	var judged *verdict.NotAcceptedError
	if errors.As(err, &judged) {
		found = judged.Verdict.Findings
	}
	for _, f := range found {
		known := slices.ContainsFunc(o.Findings, func(k verdict.Finding) bool { return k.Code == f.Code && k.Subject == f.Subject })
		if !known {
			o.Findings = append(o.Findings, f)
		}
	}
	return nil
}

// looking is what is known while one looks for what is to be signed: ahead, or
// to sign it.
type looking struct {
	Request
	proven
	sums map[string][]byte // as they would be written; nil when they are
}

// order is what is signed for a planned signature of a file: its bytes, if they
// are those that its builder vouches for.
func (l looking) order(ctx context.Context, a plan.Artifact) (sign.Order, error) {
	_, legacy := a.SignedBySig()
	of, _ := l.Plan.Find(a.Of)
	set, read := l.hashed[a.Of] // for the sums
	var err error
	switch text, written := l.sums[a.Of]; {
	case l.sums != nil && (of.Class == plan.Sums || of.Class == plan.Checksum):
		if !written {
			return sign.Order{}, errUnwritten
		}
		set = digest.SetOf(text)
	case !read:
		set, _, err = hashFile(ctx, l.Workspace.Files(), a.Of)
	}
	if err == nil && l.vouches(of) && !l.bytes[a.Of].Equal(set) {
		err = notVouched(a.Of, l.bytes[a.Of], set)
	}
	return sign.Order{Bytes: set, Legacy: legacy}, err
}

// errUnwritten says that a checksum file could not be written. What kept it from
// that is a finding of its own.
var errUnwritten = errors.New("it is not written")

// holds reports whether a planned signature is there that holds.
func (l looking) holds(ctx context.Context, a plan.Artifact, o sign.Order) (bool, error) {
	if o.Legacy {
		return checkLegacy(ctx, l.Request, a.Of) == nil, nil
	}
	raw, err := readFile(ctx, l.Request, a.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	return err == nil && checkBlob(l.Request, a.Of, o.Bytes, raw) == nil, nil
}

// found is a planned image in the layout, if it is the one that its builder
// vouches for.
func (l looking) found(ctx context.Context, a plan.Artifact) (planned, error) {
	d, _, err := findImage(ctx, l.Request, a)
	if err == nil && !l.bytes[a.Name].SHA256.Equal(d.Digest) {
		err = notVouched(a.Name, l.bytes[a.Name], digest.Set{SHA256: d.Digest})
	}
	return planned{a, manifestAt{a.Repository, d}}, err
}

// statements are what is signed about an image: its SBOM, if it has one of ours,
// and the signature.
func (l looking) statements(ctx context.Context, image planned) (documents []about, signature about, err error) {
	signature = about{image.manifestAt, intoto.CosignSignature, struct{}{}}
	if l.Plan.IsGiven() { // what came with it refers to it already
		return nil, signature, nil
	}
	document, err := imageSBOM(ctx, l.Request, image.Artifact, image.Descriptor)
	if document != nil {
		documents = []about{{image.manifestAt, intoto.SPDXDocument, json.RawMessage(document)}}
	}
	return documents, signature, err
}

// file looks at one planned signature.
func (o *Outlook) file(ctx context.Context, l looking, a plan.Artifact) error {
	order, err := l.order(ctx, a)
	switch {
	case errors.Is(err, errUnwritten):
		return nil
	case errors.Is(err, store.ErrNotFound):
		return missing(l.Request, a.Of)
	case err != nil:
		return err
	}
	held, err := l.holds(ctx, a, order)
	if err != nil {
		return err
	}
	if !order.Legacy {
		a, _ = l.Plan.Find(a.Of)
	}
	o.put(a, held, order)
	return nil
}

// image looks at one image, or one platform of it.
func (o *Outlook) image(ctx context.Context, l looking, a plan.Artifact) error {
	image, err := l.found(ctx, a)
	if err != nil {
		return err
	}
	held, err := signatureOf(ctx, l.Request, a, image.Descriptor)
	if err != nil {
		return err
	}
	if held.IsZero() {
		documents, signature, err := l.statements(ctx, image)
		if errors.Is(err, store.ErrNotFound) {
			return missing(l.Request, plan.SBOMName(a.Name))
		}
		if err != nil {
			return err
		}
		orders, err := ordersOf(append(documents, signature))
		if err != nil {
			return err
		}
		o.put(a, false, orders...)
	} else {
		o.put(a, true)
	}
	if !l.Plan.Legacy() {
		return nil
	}
	return o.attached(ctx, l, image)
}

// attached looks at the tags of one image in the legacy forms.
func (o *Outlook) attached(ctx context.Context, l looking, image planned) error {
	layers, orders, err := legacyOf(ctx, l.Request, image)
	if errors.Is(err, store.ErrNotFound) {
		return missing(l.Request, plan.SBOMName(image.Name))
	}
	if err != nil {
		return err
	}
	lacks := func(about legacyAbout) bool {
		suffix := registry.SuffixSignatures
		if about.kind != "" {
			suffix = registry.SuffixAttestations
		}
		return checkAttached(ctx, l.Request, image, suffix) != nil
	}
	if slices.ContainsFunc(layers, lacks) {
		o.Orders = append(o.Orders, orders...)
	} else {
		o.Attached = append(o.Attached, image.Artifact)
	}
	return nil
}

func (o *Outlook) put(a plan.Artifact, held bool, orders ...sign.Order) {
	if held {
		o.Signed = append(o.Signed, a)
		return
	}
	o.Due, o.Orders = append(o.Due, a), append(o.Orders, orders...)
}

// missing says that a planned file is not there, and what makes it.
func missing(req Request, name string) error {
	e := verdict.Refuse(verdict.SealMissing, name, "planned, but not in the build directory")
	version := req.Plan.Version.String()
	switch a, _ := req.Plan.Find(name); a.Class {
	case plan.SBOM:
		return e.Advise("write the SBOMs first: waybill sbom " + version)
	case plan.Sums, plan.Checksum, plan.Signature:
		return e.Advise("sign first: waybill sign " + version + " --confirm")
	}
	return e
}
