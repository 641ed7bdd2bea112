package spdx

import (
	"errors"
	"maps"
	"slices"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// maxRelationships limits the graph of one document.
const maxRelationships = 1_000_000

// reader parses one document into a model and records every fault.
type reader struct {
	*strictjson.Scanner[string]
	trail
	faults
	in22   faults // required by version 2.2 only
	stack  []*values
	frames int
	size   int // of the text
	from   int // where the current array begins

	m        model
	sums     []sum
	refs     []externalRef
	code     string
	excluded []string
	hasFiles []string
	info     string // licence information of a file

	expression string // the last licence expression that was checked
}

type externalRef struct{ category, kind, locator string }

// read parses text. The model is complete only if none of the faults is of a
// judged rule.
func read(text string) (*model, faults) {
	r := &reader{Scanner: strictjson.NewScanner(text, strictjson.MaxSize(MaxSize)), size: len(text)}
	if !r.Failed() {
		r.object(r.document())
		r.End()
	}
	if err := (*strictjson.Error)(nil); errors.As(r.Err(), &err) {
		rule := ruleForm
		if err.Code == strictjson.CodeDepth || err.Code == strictjson.CodeSize {
			rule = ruleLimit
		}
		err.Path = "" // in an ignored part; the path says where
		r.add(rule, r.where(), "%v", err)
		return &r.m, r.faults
	}
	if r.m.version == version22 {
		for _, f := range r.in22.list {
			r.add(f.Rule, f.Place, "%s", f.Message)
		}
	}
	c := &checker{faults: r.faults, m: &r.m}
	c.check()
	return &r.m, c.faults
}

// sampled is the number of elements that are read before memory is reserved for
// the rest.
const sampled = 1024

// room estimates how many more elements follow if the rest of the text is like
// the part that was read, with a minimum size for each: a growing list is
// copied many times, but a text must not cause a larger allocation than it
// could fill.
func (r *reader) room(read, least int) int {
	if read != sampled {
		return 0
	}
	return (r.size-r.Offset())/max((r.Offset()-r.from)/sampled, least) + sampled/8
}

func (r *reader) fault(rule Rule, format string, args ...any) {
	r.add(rule, r.where(), format, args...)
}

// collect keeps strings of a list.
func collect(into *[]string) func(string, string) {
	return func(_, val string) { *into = append(*into, val) }
}

func (r *reader) document() *shape {
	var describes []string
	externals := r.external()
	return shaped(nil, func(v *values) {
		m := &r.m
		m.version, m.licence, m.id = v.get("spdxVersion"), v.get("dataLicense"), v.get("SPDXID")
		m.name, m.namespace, m.comment = v.get("name"), v.get("documentNamespace"), v.get("comment")
		for _, id := range describes {
			r.relate(Relationship{From: DocumentID, Type: Describes, To: id})
		}
	},
		property{name: "$schema", kind: text}, property{name: "SPDXID", kind: text, demand: required},
		property{name: "annotations", kind: objects, of: annotation()}, property{name: "comment", kind: text},
		property{name: "creationInfo", kind: object, demand: required, of: r.creation()},
		property{name: "dataLicense", kind: text, demand: required},
		property{name: "externalDocumentRefs", kind: objects, of: externals},
		property{name: "hasExtractedLicensingInfos", kind: objects, of: r.extracted()},
		property{name: "name", kind: text, demand: required}, property{name: "revieweds", kind: objects, of: reviewed()},
		property{name: "spdxVersion", kind: text, demand: required},
		property{name: "documentNamespace", kind: text, demand: required},
		property{name: "documentDescribes", kind: texts, each: collect(&describes)},
		property{name: "packages", kind: objects, of: r.pkg()}, property{name: "files", kind: objects, of: r.file()},
		property{name: "snippets", kind: objects, of: r.snippet()},
		property{name: "relationships", kind: objects, of: r.relationship()},
	)
}

func (r *reader) creation() *shape {
	return shaped(nil, func(v *values) { r.m.created, r.m.context = v.get("created"), v.get("comment") },
		property{name: "comment", kind: text}, property{name: "created", kind: text, demand: required},
		property{name: "creators", kind: texts, demand: required, least: 1, each: collect(&r.m.creators)},
		property{name: "licenseListVersion", kind: text},
	)
}

func (r *reader) checksum() *shape {
	return shaped(nil, func(v *values) {
		if v.has("algorithm") && v.has("checksumValue") {
			r.sums = append(r.sums, sum{v.get("algorithm"), v.get("checksumValue")})
		}
	},
		property{name: "algorithm", kind: text, demand: required, among: slices.Sorted(maps.Keys(algorithms))},
		property{name: "checksumValue", kind: text, demand: required},
	)
}

func (r *reader) external() *shape {
	return shaped(func() { r.sums = r.sums[:0] }, func(v *values) {
		e := External{ID: v.get("externalDocumentId"), Namespace: v.get("spdxDocument")}
		e.SHA256 = r.set(r.sums).SHA256
		r.m.externals = append(r.m.externals, e)
	},
		property{name: "checksum", kind: object, demand: required, of: r.checksum()},
		property{name: "externalDocumentId", kind: text, demand: required},
		property{name: "spdxDocument", kind: text, demand: required},
	)
}

func (r *reader) extracted() *shape {
	cross := shaped(nil, nil,
		property{name: "isLive", kind: flag}, property{name: "isValid", kind: flag}, property{name: "isWayBackLink", kind: flag},
		property{name: "match", kind: text}, property{name: "order", kind: number}, property{name: "timestamp", kind: text},
		property{name: "url", kind: text, demand: required},
	)
	return shaped(nil, func(v *values) { r.m.licences = append(r.m.licences, v.get("licenseId")) },
		property{name: "comment", kind: text}, property{name: "crossRefs", kind: objects, of: cross},
		property{name: "extractedText", kind: text, demand: required}, property{name: "licenseId", kind: text, demand: required},
		property{name: "name", kind: text}, property{name: "seeAlsos", kind: texts},
	)
}

func annotation() *shape {
	return shaped(nil, nil,
		property{name: "annotationDate", kind: text, demand: required},
		property{name: "annotationType", kind: text, demand: required, among: annotationKinds},
		property{name: "annotator", kind: text, demand: required}, property{name: "comment", kind: text, demand: required},
	)
}

func reviewed() *shape {
	return shaped(nil, nil,
		property{name: "comment", kind: text}, property{name: "reviewDate", kind: text, demand: required},
		property{name: "reviewer", kind: text},
	)
}

func (r *reader) relationship() *shape {
	return shaped(nil, func(v *values) {
		r.relate(Relationship{
			From: v.get("spdxElementId"), Type: v.get("relationshipType"), To: v.get("relatedSpdxElement"), Comment: v.get("comment"),
		})
	},
		property{name: "spdxElementId", kind: text, demand: required}, property{name: "comment", kind: text},
		property{name: "relatedSpdxElement", kind: text, demand: required},
		property{name: "relationshipType", kind: text, demand: required, among: relationshipKinds},
	)
}

// relate adds a relationship, up to the limit.
func (r *reader) relate(rel Relationship) {
	if len(r.m.relationships) >= maxRelationships {
		r.Fail(strictjson.CodeSize, "more than %d relationships", maxRelationships)
		return
	}
	if n := r.room(len(r.m.relationships), 128); n > 0 {
		r.m.relationships = slices.Grow(r.m.relationships, min(n, maxRelationships))
	}
	r.m.relationships = append(r.m.relationships, rel)
}
