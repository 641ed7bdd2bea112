package spdx

import "strings"

// other is a kind of file that people mistake for an SPDX document, how to
// detect it, and what to do.
type other struct {
	marks []string // the head of the file contains all of these
	fault Fault
}

func others() []other {
	const (
		inside  = "the SBOM may be its predicate: waybill inspect FILE shows it, and "
		payload = " | base64 -d | jq .predicate > sbom.spdx.json extracts it"
	)
	return []other{
		{[]string{`"@graph"`, "spdx.org/rdf/3"}, Fault{ruleHead, "@context", "SPDX version 3 is not supported; write the document as " + Version}},
		{[]string{`"bomFormat"`, "CycloneDX"}, Fault{ruleForm, "bomFormat", "this is a CycloneDX document, which waybill sbom check compares with bytes; for the rules of SPDX let its tool write " + Version + " (syft: -o spdx-json)"}},
		{[]string{"vnd.dev.sigstore.bundle", `"dsseEnvelope"`}, Fault{ruleForm, "mediaType",
			"this is a Sigstore bundle, a signed statement; " + inside + "jq -r .dsseEnvelope.payload FILE" + payload}},
		{[]string{"vnd.dev.sigstore.bundle"}, Fault{ruleForm, "mediaType", "this is a Sigstore bundle, the signature of a file; give the file itself"}},
		{[]string{`"payloadType"`, `"signatures"`}, Fault{ruleForm, "payloadType",
			"this is a signed statement in a DSSE envelope; " + inside + "jq -r .payload FILE" + payload}},
		{[]string{`"_type"`, "in-toto.io/Statement"}, Fault{ruleForm, "_type",
			"this is an in-toto statement; " + inside + "jq .predicate FILE > sbom.spdx.json extracts it"}},
		{[]string{`"application/vnd.oci.image`, `"schemaVersion"`}, Fault{ruleForm, "mediaType",
			"this is the manifest of an image; waybill sbom generate describes the image"}},
		{[]string{"<", "cyclonedx.org/schema/bom"}, Fault{ruleForm, "", "this is CycloneDX in XML, which is not supported; write it as JSON (cyclonedx convert --output-format json)"}},
		{[]string{"<rdf:RDF"}, Fault{ruleForm, "", "this is SPDX in RDF/XML, which is not supported; write it as JSON or tag-value"}},
		{[]string{"spdxVersion:", "SPDXID:", "documentNamespace:"}, Fault{ruleForm, "", "this is SPDX in YAML, which is not supported; write it as JSON or tag-value"}},
	}
}

// orElse replaces the list of faults of a file that is not an SPDX 2 document,
// or is one in an unsupported form, with a message that says what it is.
func orElse(text string, found faults) faults {
	if len(found.list) == 0 {
		return found
	}
	if strings.HasPrefix(text, byteOrderMark) {
		return faults{list: []Fault{{ruleForm, "", "the file begins with a byte order mark, which neither form allows; remove it: sed '1s/^\\xEF\\xBB\\xBF//'"}}}
	}
	const enough = 1 << 20
	text = text[:min(len(text), enough)]
	if strings.Contains(text, `"spdxVersion"`) && !strings.Contains(text, `"predicate`) {
		return found
	}
	for _, o := range others() {
		is := true
		for _, mark := range o.marks {
			is = is && strings.Contains(text, mark)
		}
		if is {
			return faults{list: []Fault{o.fault}}
		}
	}
	return found
}
