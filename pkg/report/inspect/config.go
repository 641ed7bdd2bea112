package inspect

import (
	"fmt"
	"strings"
	"time"

	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	"github.com/waybill-release/waybill/pkg/document/cyclonedx"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// configs returns the readers of our own configuration files, by kind.
func configs() map[string]func([]byte) (Document, error) {
	return map[string]func([]byte) (Document, error){
		"Policy":  config(Policy, func(raw []byte) error { _, err := policy.Parse(raw, anyRule{}); return err }),
		"Profile": config(Profile, profile.Check),
		"Release": config(Release, func(raw []byte) error { _, err := plan.ParseConfig(raw); return err }),
		"Lock":    config(Lock, func(raw []byte) error { _, err := plan.ParseLock(raw); return err }),

		knowndefects.Kind: config(KnownDefects, func(raw []byte) error { _, err := knowndefects.ParseFile(raw); return err }),
		declaration.Kind:  config(Declaration, func(raw []byte) error { _, err := declaration.ParseFile(raw); return err }),
	}
}

// config reads YAML with the strict reader of its kind.
func config(kind Kind, check func([]byte) error) func([]byte) (Document, error) {
	return func(raw []byte) (Document, error) {
		if err := check(raw); err != nil {
			return Document{}, err
		}
		fields, err := flattenYAML(raw)
		if err != nil {
			return Document{}, err
		}
		return Document{Kind: kind, Fields: fields}, nil
	}
}

func fromTrustRoot(raw []byte) (Document, error) {
	root, err := trust.Parse(raw)
	if err != nil {
		return Document{}, err
	}
	d := Document{Kind: TrustRoot}
	if root.IsLab() {
		d.say("warning", "an INSECURE LAB: anybody can have its keys")
	}
	for _, a := range root.Authorities() {
		part := Document{Kind: Kind(a.Kind)}
		part.say("address", a.URI)
		part.say("subject", a.Subject)
		part.say("key", a.KeyID)
		part.say("from", moment(a.From))
		part.say("until", moment(a.To))
		d.Parts = append(d.Parts, part)
	}
	return d, nil
}

// moment prints a time limit; the zero time means no limit.
func moment(t time.Time) string {
	if t.IsZero() {
		return "no bound"
	}
	return t.UTC().Format(time.RFC3339)
}

func fromSPDX(raw []byte) (Document, error) {
	doc, report := spdx.Validate(string(raw))
	if err := report.Err(); err != nil {
		return Document{}, err
	}
	return ofSBOM(doc, SBOM, report.Version)
}

func fromCycloneDX(raw []byte) (Document, error) {
	doc, err := cyclonedx.Parse(raw)
	if err != nil {
		return Document{}, err
	}
	return ofSBOM(doc, CycloneDX, "")
}

func ofSBOM(doc spdx.Document, kind Kind, version string) (Document, error) {
	d := Document{Kind: kind}
	d.say("version", version)
	d.say("name", doc.Name())
	d.say("namespace", doc.Namespace())
	if name, sum := doc.Describes(); name != "" {
		described := name
		if !sum.IsZero() {
			described += " " + sum.String()
		}
		d.say("describes", described)
	}
	for _, e := range doc.ExternalRefs() {
		d.say("refers to", e.ID+" "+e.Namespace)
	}
	d.say("packages", fmt.Sprint(len(doc.Packages())))
	d.say("files", fmt.Sprint(len(doc.Files())))
	d.say("relationships", fmt.Sprint(len(doc.Relationships())))
	for i, p := range doc.Packages() {
		if i == maxFields {
			d.say("left out", fmt.Sprintf("%d more packages", len(doc.Packages())-i))
			break
		}
		d.say("package", strings.Join(strings.Fields(strings.Join([]string{p.Name, p.Version, p.PURL}, " ")), " "))
	}
	return d, nil
}

// anyRule accepts the rules in a policy without compiling them, to show the
// policy. No rule that it returns is ever met.
type anyRule struct{}

func (anyRule) Compile(string) (policy.Expression, error) { return anyRule{}, nil }

func (anyRule) Holds(policy.View) (bool, error) { return false, nil }
