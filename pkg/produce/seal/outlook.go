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

// Outlook is what [Sign] and [Run] would do with the workspace as it is now.
type Outlook struct {
	// Signed have a valid signature, Due are to get one.
	Signed, Due []plan.Artifact
	// Attached are the images that have the tags of the legacy forms, of
	// those that need them.
	Attached []plan.Artifact
	// Orders are what is to be signed for those that are due.
	Orders []sign.Order
	// Sealed means that there is a signed manifest of the current content.
	Sealed bool
	// Findings are problems: a missing file cannot be signed, and an unplanned
	// one stops everything.
	Findings []verdict.Finding
}

// Look says what would be signed. It writes and signs nothing, and contacts
// no service. It does not compare SBOMs with their artifacts: that takes
// long, and is done before anything is signed.
func Look(ctx context.Context, req Request) (o Outlook, err error) {
	if err := o.addRefusal("", checkExtra(ctx, req)); err != nil {
		return Outlook{}, err
	}
	p, err := provenances(ctx, req)
	if err := o.addRefusal("", err); err != nil {
		return Outlook{}, err
	}
	if len(p.bytes) == 0 {
		return o, nil // nothing is proven, so nothing may be signed
	}
	texts, err := sums(ctx, req, p)
	if err := o.addRefusal("", err); err != nil {
		return Outlook{}, err
	}
	l := signingInput{req, p, texts}
	for _, a := range req.Plan.Artifacts {
		look := o.file
		switch _, legacy := a.SignedBySig(); {
		case a.IsImage():
			look = o.image
		case a.Class != plan.Signature, a.IsStatement(), a.IsLegacy() && !legacy: // a certificate comes with its signature
			continue
		}
		if err := o.addRefusal(a.Name, look(ctx, l, a)); err != nil {
			return Outlook{}, err
		}
	}
	if len(o.Findings)+len(o.Due) > 0 {
		return o, nil
	}
	if waits, err := lacksStatement(ctx, req); err != nil || waits {
		return o, err
	}
	m, err := newManifest(ctx, req, p)
	if err := o.addRefusal("", err); err != nil {
		return Outlook{}, err
	}
	slices.SortFunc(m.Artifacts, func(a, b manifest.Artifact) int { return strings.Compare(a.Name, b.Name) })
	_, o.Sealed = sealedAlready(ctx, req, m)
	return o, nil
}

// addRefusal stores a refusal, and returns any other error: failing to look must
// not count as finding nothing. Duplicate refusals are stored once.
func (o *Outlook) addRefusal(name string, err error) error {
	if err == nil {
		return nil
	}
	if verdict.OutcomeOf(err) != verdict.Refused {
		return err
	}
	found := []verdict.Finding{verdict.FindingOf(name, err)}
	if judged, is := errors.AsType[*verdict.NotAcceptedError](err); is {
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

// signingInput is the input for finding out what is to be signed: for a forecast,
// or for signing.
type signingInput struct {
	Request
	proven
	sums map[string][]byte // as they would be written; nil once they are
}

// order is what is signed for a planned signature of a file: its bytes, if
// they are the proven ones.
func (l signingInput) order(ctx context.Context, a plan.Artifact) (sign.Order, error) {
	if a.IsSBOMList() {
		list, err := l.sbomList(ctx)
		return sign.Order{Statement: list}, err
	}
	_, legacy := a.SignedBySig()
	of, _ := l.Plan.Find(a.Of)
	set, read := l.hashed[a.Of] // read for the sums already
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
	if err == nil && l.needsProof(of) && !l.bytes[a.Of].Equal(set) {
		err = unproven(a.Of, l.bytes[a.Of], set)
	}
	return sign.Order{Bytes: set, Legacy: legacy}, err
}

// errUnwritten means that a checksum file could not be written. The cause is
// a finding of its own.
var errUnwritten = errors.New("the checksum file is not written")

// isSigned reports whether there is a valid planned signature.
func (l signingInput) isSigned(ctx context.Context, a plan.Artifact, o sign.Order) (bool, error) {
	if o.Legacy {
		return checkLegacy(ctx, l.Request, a.Of) == nil, nil
	}
	raw, err := readFile(ctx, l.Request, a.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	return err == nil && checkSignature(l.Request, a, o, raw) == nil, nil
}

// findImage is a planned image in the layout, if it is the proven one.
func (l signingInput) findImage(ctx context.Context, a plan.Artifact) (planned, error) {
	d, _, err := findImage(ctx, l.Request, a)
	if err == nil && !l.bytes[a.Name].SHA256.Equal(d.Digest) {
		err = unproven(a.Name, l.bytes[a.Name], digest.Set{SHA256: d.Digest})
	}
	return planned{a, manifestAt{a.Repository, d}}, err
}

// statements are what is signed about an image: its SBOM, if it has one of
// ours, and the signature.
func (l signingInput) statements(ctx context.Context, image planned) (documents []imageStatement, signature imageStatement, err error) {
	signature = imageStatement{image.manifestAt, intoto.CosignSignature, struct{}{}}
	if l.Plan.IsGiven() { // supplied evidence refers to it already
		return nil, signature, nil
	}
	document, err := imageSBOM(ctx, l.Request, image.Artifact, image.Descriptor)
	if document != nil {
		documents = []imageStatement{{image.manifestAt, intoto.SPDXDocument, json.RawMessage(document)}}
	}
	return documents, signature, err
}

// file checks one planned signature.
func (o *Outlook) file(ctx context.Context, l signingInput, a plan.Artifact) error {
	order, err := l.order(ctx, a)
	switch {
	case errors.Is(err, errUnwritten), a.IsSBOMList() && errors.Is(err, store.ErrNotFound):
		return nil // what is missing is a finding of its own
	case errors.Is(err, store.ErrNotFound):
		return missing(l.Request, a.Of)
	case err != nil:
		return err
	}
	held, err := l.isSigned(ctx, a, order)
	if err != nil {
		return err
	}
	if !order.Legacy && !a.IsSBOMList() {
		a, _ = l.Plan.Find(a.Of)
	}
	o.add(a, held, order)
	return nil
}

// image checks one image, or one platform of it.
func (o *Outlook) image(ctx context.Context, l signingInput, a plan.Artifact) error {
	image, err := l.findImage(ctx, a)
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
		o.add(a, false, orders...)
	} else {
		o.add(a, true)
	}
	if !l.Plan.Legacy() {
		return nil
	}
	return o.attached(ctx, l, image)
}

// attached checks the tags of one image in the legacy forms.
func (o *Outlook) attached(ctx context.Context, l signingInput, image planned) error {
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

func (o *Outlook) add(a plan.Artifact, held bool, orders ...sign.Order) {
	if held {
		o.Signed = append(o.Signed, a)
		return
	}
	o.Due, o.Orders = append(o.Due, a), append(o.Orders, orders...)
}

// missing says that a planned file does not exist, and how to make it.
func missing(req Request, name string) error {
	e := verdict.Refuse(verdict.SealMissing, name, "planned, but missing in the build directory")
	version := req.Plan.Version.String()
	switch a, _ := req.Plan.Find(name); a.Class {
	case plan.SBOM:
		return e.Advise("write the SBOMs first: waybill sbom " + version)
	case plan.Sums, plan.Checksum, plan.Signature:
		return e.Advise("sign first: waybill sign " + version + " --confirm")
	}
	return e
}
