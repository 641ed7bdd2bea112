package waybill_test

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// A floor is a storey of the house. Its rooms are listed in the order in which
// they may import each other: a room imports earlier rooms only.
type floor struct {
	name  string
	pure  bool // no files, no network, no clock, no log, no context
	rooms []string
}

// house is the architecture: imports go down, from any line to earlier lines
// and, within a line, from right to left. A new package is added here, after
// everything it imports.
var house = []floor{
	{"words", true, []string{
		"pkg/tool/order", "pkg/value/digest", "pkg/tool/strictjson", "pkg/tool/strictyaml", "pkg/value/version", "pkg/value/verdict", "pkg/value/address", "pkg/tool/estimate", "pkg/tool/redact", "pkg/value/trace", "policies",
	}},
	{"formats", true, []string{
		"pkg/document/intoto", "pkg/document/legacy", "pkg/document/provenance", "pkg/document/vsa", "pkg/document/promotionrecord", "pkg/document/spdx", "attestations/release-manifest/v1",
		"pkg/release/plan", "pkg/release/plan/draft", "pkg/release/manifest", "pkg/release/promoterfile",
		"attestations/policy/v1", "attestations/exception/v1", "attestations/known-defects/v1", "attestations/channel/v1", "attestations/release-signoff/v1", "attestations/feature-transition/v1",
	}},
	{"judgement", true, []string{
		"pkg/judge/trust", "pkg/value/identity", "pkg/judge/verify", "pkg/judge/slsa", "pkg/judge/policy", "pkg/judge/policy/cel", "pkg/judge/sbomcheck", "pkg/judge/census", "pkg/judge/k8slayout", "pkg/judge/waiver", "pkg/judge/channel", "pkg/release/promotionplan", "pkg/serve/caller", "pkg/govern/feature", "pkg/govern/feature/known", "pkg/govern/signoff",
	}},
	{"world", false, []string{
		"pkg/backend/tracing/carry", "pkg/backend/transport", "pkg/backend/tracing/span", "pkg/document/unpack", "pkg/backend/store", "pkg/backend/store/cloud", "pkg/backend/lease", "pkg/backend/marker", "pkg/govern/feature/store", "pkg/govern/feature/componentbase", "pkg/backend/registry", "pkg/backend/rekorv1",
		"pkg/backend/tuf", "pkg/backend/git", "pkg/produce/sandbox", "pkg/backend/journal", "pkg/produce/sign/token", "pkg/produce/sign/keyfile", "pkg/produce/sign",
	}},
	{"deeds", false, []string{
		"pkg/govern/feature/reconcile", "pkg/govern/feature/cleanup", "pkg/govern/feature/effective", "pkg/gate/profile", "pkg/produce/workspace", "pkg/produce/checkout", "pkg/produce/lock", "pkg/sbom/licence", "pkg/sbom/gomod", "pkg/sbom/distro",
		"pkg/sbom", "pkg/produce/image", "pkg/produce/fetch", "pkg/produce/run", "pkg/produce/seal",
		"pkg/judge/intotolayout", "pkg/gate", "pkg/govern/feature/coverage", "pkg/gate/latest", "pkg/gate/download", "pkg/produce/attest", "pkg/pipeline/promote", "pkg/report/render", "pkg/report/inspect", "pkg/report/lineage", "pkg/pipeline/doctor", "pkg/pipeline", "pkg/govern/feature/config", "pkg/serve/api", "pkg/serve",
	}},
}

// testSupport holds what the tests of several packages share. It is no part of the
// product.
const testSupport = "pkg/testing"

// reserved names the rooms that one command alone may import, because of what
// they bring with them.
var reserved = map[string]string{
	"pkg/backend/store/cloud": "cmd/waybill",
	"pkg/judge/policy/cel":    "cmd/waybill", // the rules engine
}

// stands finds a room: its floor and its place in the order of the house.
func stands(room string) (f floor, place int, ok bool) {
	for _, f := range house {
		for _, r := range f.rooms {
			if r == room {
				return f, place, true
			}
			place++
		}
	}
	return floor{}, 0, false
}

// floorsInOrder refuses packages that stand nowhere, and imports that go up.
func floorsInOrder(tr *tree) (refusals []string) {
	byRoom := rooms(tr.product())
	for _, room := range sorted(byRoom) {
		if _, _, ok := stands(room); !ok && !under(room, "cmd") {
			refusals = append(refusals, room+" stands on no floor: "+
				"add it to the table in arch_floors_test.go, after everything it imports")
			continue
		}
		for _, other := range productImports(byRoom[room]) {
			if why := mayImport(room, other); why != "" {
				refusals = append(refusals, fmt.Sprintf("%s imports %s: %s", room, other, why))
			}
		}
	}
	return refusals
}

// mayImport answers "" or the reason why not.
func mayImport(room, other string) string {
	if user, ok := reserved[other]; ok && room != user {
		return "only " + user + " may (pass the value in from there)"
	}
	switch {
	case under(other, testSupport):
		return "only tests import test support (move what the product needs out of " + testSupport + ")"
	case under(other, "test"):
		return "the product never imports the test module (move the code into the product, or the test out of it)"
	case under(room, "cmd"):
		return ""
	case under(other, "cmd"):
		return "nothing below the mouth may import a command (move the code down into pkg)"
	}
	from, place, _ := stands(room)
	to, target, ok := stands(other)
	switch {
	case !ok:
		return "it stands on no floor (add it to the table in arch_floors_test.go)"
	case target < place:
		return ""
	case from.name != to.name:
		return fmt.Sprintf("%s may not import %s (move the call up, or the value down)", from.name, to.name)
	}
	return fmt.Sprintf("within %s it stands later (move the value down, or the room in the table)", from.name)
}

// productImports lists the packages of this repository that files import, as
// directories.
func productImports(files []*source) []string {
	seen := map[string]bool{}
	for _, s := range files {
		for _, where := range s.imports {
			if under(where, modulePath) && where != modulePath {
				seen[strings.TrimPrefix(where, modulePath+"/")] = true
			}
		}
	}
	return sorted(seen)
}

// unworldly lists what the pure floors may not import, and the way out.
var unworldly = map[string]string{
	"os":           "take bytes, an fs.FS or an io.Reader",
	"os/exec":      "take the answer as a value",
	"os/signal":    "take the answer as a value",
	"os/user":      "take the answer as a value",
	"io/ioutil":    "take bytes or an io.Reader",
	"syscall":      "take the answer as a value",
	"net":          "take the answer as a value",
	"net/http":     "take the answer as a value",
	"log":          "return a finding or an error",
	"log/slog":     "return a finding or an error",
	"context":      "nothing here waits",
	"math/rand":    "the same input gives the same verdict",
	"math/rand/v2": "the same input gives the same verdict",
	"crypto/rand":  "the same input gives the same verdict",
}

// pureFloors refuses the world in words, formats and judgement. Only direct
// imports are judged.
func pureFloors(tr *tree) (refusals []string) {
	for _, s := range tr.product() {
		f, _, _ := stands(s.room)
		for _, local := range sorted(s.imports) {
			where := s.imports[local]
			if strings.HasPrefix(local, ".") {
				refusals = append(refusals, fmt.Sprintf(
					"%s imports %q with a dot: its names can no longer be judged (name the package)", s.path, where))
			}
			if out, bad := unworldly[where]; f.pure && bad {
				refusals = append(refusals, fmt.Sprintf(
					"%s imports %s: %s may not see the world (%s)", s.path, where, f.name, out))
			}
		}
	}
	return refusals
}

// clock lists the symbols of package time that read or wait for the clock.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}

// forbiddenSymbols refuses the clock, the default client and the library calls
// that fetch or open trust by themselves, on the pure floors.
func forbiddenSymbols(tr *tree) (refusals []string) {
	for _, s := range tr.product() {
		f, _, _ := stands(s.room)
		if !f.pure {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if n == nil {
				return true
			}
			where, symbol := s.selected(n)
			if why := forbidden(where, symbol); why != "" {
				refusals = append(refusals, fmt.Sprintf("%s uses %s: %s",
					tr.at(n.Pos()), strings.TrimPrefix(path.Base(where)+"."+symbol, ".."), why))
			}
			return true
		})
	}
	return refusals
}

// forbidden answers why a selected symbol is refused, or "".
func forbidden(where, symbol string) string {
	switch {
	case where == "time" && slices.Contains(clock, symbol):
		return "time is an argument (take a time.Time)"
	case where == "net/http" && strings.HasPrefix(symbol, "Default"):
		return "there is one transport, and the caller holds it"
	case symbol == "WithCurrentTime":
		return "time is an argument (verify at the time that was given)"
	case strings.HasPrefix(symbol, "FetchTrustedRoot"):
		return "a trust root is an argument (take a trust.Root)"
	case strings.HasSuffix(symbol, "FromPath"):
		return "judgement opens no files (take bytes)"
	}
	return ""
}

// foreign lists the modules whose types stay behind the judgement floor.
var foreign = []string{"github.com/sigstore/sigstore-go", "github.com/sigstore/protobuf-specs"}

// exportedSignatures refuses foreign types in what judgement exports: whoever
// calls us must not need to know which library verifies.
func exportedSignatures(tr *tree) (refusals []string) {
	for _, s := range tr.product() {
		if f, _, _ := stands(s.room); f.name != "judgement" {
			continue
		}
		for _, decl := range s.file.Decls {
			for name, exprs := range exportedTypes(decl) {
				for _, e := range exprs {
					refusals = append(refusals, foreignIn(tr, s, name, e)...)
				}
			}
		}
	}
	slices.Sort(refusals)
	return refusals
}

// foreignIn refuses the foreign types inside one type expression.
func foreignIn(tr *tree, s *source, name string, e ast.Node) (refusals []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		where, symbol := s.selected(n)
		for _, module := range foreign {
			if where != "" && under(where, module) {
				refusals = append(refusals, fmt.Sprintf(
					"%s: exported %s shows %s.%s of %s: judgement speaks in its own types (wrap it)",
					tr.at(n.Pos()), name, path.Base(where), symbol, module))
			}
		}
		return true
	})
	return refusals
}

// exportedTypes lists, by exported name, the type expressions that a
// declaration shows to other packages.
func exportedTypes(decl ast.Decl) map[string][]ast.Node {
	out := map[string][]ast.Node{}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
			out[d.Name.Name] = []ast.Node{d.Type}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch sp := spec.(type) {
			case *ast.TypeSpec:
				if sp.Name.IsExported() {
					out[sp.Name.Name] = shown(sp.Type)
				}
			case *ast.ValueSpec:
				for _, name := range sp.Names {
					if name.IsExported() && sp.Type != nil {
						out[name.Name] = []ast.Node{sp.Type}
					}
				}
			}
		}
	}
	return out
}

// shown lists what an exported type shows: all of it, but of a struct the
// exported and embedded fields only.
func shown(e ast.Expr) (out []ast.Node) {
	st, ok := e.(*ast.StructType)
	if !ok {
		return []ast.Node{e}
	}
	for _, field := range st.Fields.List {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			out = append(out, field.Type)
		}
	}
	return out
}

// receiver names the type a method belongs to.
func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
