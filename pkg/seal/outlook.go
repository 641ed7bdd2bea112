package seal

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/sign"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
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
	for _, a := range req.Plan.Artifacts {
		if a.Class != plan.Signature && !a.IsImage() || a.IsStatement() {
			continue
		}
		look := o.file
		switch _, sig := a.SignedBySig(); {
		case a.IsImage():
			look = o.image
		case sig:
			look = o.legacy
		case a.IsLegacy():
			continue // the certificate comes with it
		}
		if err := o.against(a.Name, look(ctx, looking{req, p, texts}, a)); err != nil {
			return Outlook{}, err
		}
	}
	if len(o.Findings)+len(o.Due) > 0 {
		return o, nil
	}
	if waits, err := unstated(ctx, req); err != nil || waits {
		return o, err
	}
	m, err := manifest(ctx, req, p)
	if err := o.against("", err); err != nil {
		return Outlook{}, err
	}
	slices.SortFunc(m.Artifacts, func(a, b release.Artifact) int { return strings.Compare(a.Name, b.Name) })
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

// looking is what is known while one looks.
type looking struct {
	Request
	proven
	sums map[string][]byte // as they would be written
}

// file looks at one planned signature.
func (o *Outlook) file(ctx context.Context, l looking, a plan.Artifact) error {
	of, _ := l.Plan.Find(a.Of)
	var set digest.Set
	if of.Class == plan.Sums || of.Class == plan.Checksum {
		text, known := l.sums[a.Of]
		if !known {
			return nil // the file that kept it from being written is a finding
		}
		set = digest.SetOf(text)
	} else {
		var err error
		if set, _, err = hashFile(ctx, l.Workspace.Files(), a.Of); errors.Is(err, store.ErrNotFound) {
			return missing(l.Request, a.Of)
		} else if err != nil {
			return err
		}
	}
	held, err := signedAs(ctx, l.Request, l.proven, a, set)
	if err != nil {
		return err
	}
	o.put(of, held, sign.Order{Bytes: set})
	return nil
}

// legacy looks at one planned signature in the legacy form.
func (o *Outlook) legacy(ctx context.Context, l looking, a plan.Artifact) error {
	set, _, err := hashFile(ctx, l.Workspace.Files(), a.Of)
	if of, _ := l.Plan.Find(a.Of); of.Class == plan.Sums || of.Class == plan.Checksum {
		if l.sums[a.Of] == nil {
			return nil
		}
		set, err = digest.SetOf(l.sums[a.Of]), nil
	}
	if errors.Is(err, store.ErrNotFound) {
		return missing(l.Request, a.Of)
	}
	if err != nil {
		return err
	}
	o.put(a, checkLegacy(ctx, l.Request, a.Of) == nil, sign.Order{Bytes: set, Legacy: true})
	return nil
}

// image looks at one image, or one platform of it.
func (o *Outlook) image(ctx context.Context, l looking, a plan.Artifact) error {
	d, _, err := findImage(ctx, l.Request, a)
	if err != nil {
		return err
	}
	if !l.bytes[a.Name].SHA256.Equal(d.Digest) {
		return notVouched(a.Name, l.bytes[a.Name], digest.Set{SHA256: d.Digest})
	}
	held, err := signatureOf(ctx, l.Request, a, d)
	if err != nil {
		return err
	}
	about := []about{{manifestAt{a.Repository, d}, intoto.CosignSignature, struct{}{}}}
	if held.IsZero() {
		document, err := imageSBOM(ctx, l.Request, a, d)
		if errors.Is(err, store.ErrNotFound) {
			return missing(l.Request, plan.SBOMName(a.Name))
		}
		if err != nil {
			return err
		}
		if document != nil {
			about = append(about, aboutSBOM(manifestAt{a.Repository, d}, document))
		}
	}
	orders, err := ordersOf(about)
	if err != nil {
		return err
	}
	o.put(a, !held.IsZero(), orders...)
	if !l.Plan.Legacy() {
		return nil
	}
	return o.attached(ctx, l, planned{a, manifestAt{a.Repository, d}})
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

func aboutSBOM(at manifestAt, document []byte) about {
	return about{at, intoto.SPDXDocument, json.RawMessage(document)}
}
