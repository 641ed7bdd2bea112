package arch_test

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// oneTransport is where connections are made, and nowhere else.
const oneTransport = "pkg/backend/transport"

// ways lists, by package, the symbols that reach the network by a way of their
// own, and what to use instead.
var ways = map[string]map[string]string{
	"net/http": {
		"DefaultClient": "take a RoundTripper", "DefaultTransport": "take a RoundTripper", "Get": "use transport.Client(rt)",
		"Post": "use transport.Client(rt)", "PostForm": "use transport.Client(rt)", "Head": "use transport.Client(rt)",
		"Transport": "take a RoundTripper", "Client": "use transport.Client(rt)", "ProxyFromEnvironment": "take a RoundTripper",
	},
	"net": {
		"Dial": "take a RoundTripper", "DialTimeout": "take a RoundTripper", "Dialer": "take a RoundTripper", "DialTCP": "take a RoundTripper",
		"DialUDP": "take a RoundTripper", "DialIP": "take a RoundTripper", "LookupHost": "let the transport resolve names", "LookupIP": "let the transport resolve names",
		"LookupAddr": "let the transport resolve names", "LookupCNAME": "let the transport resolve names", "LookupTXT": "let the transport resolve names",
		"Resolver": "let the transport resolve names", "DefaultResolver": "let the transport resolve names",
	},
	"crypto/tls": {"Dial": "take a RoundTripper", "DialWithDialer": "take a RoundTripper", "Dialer": "take a RoundTripper", "Client": "take a RoundTripper"},
	// Shortcuts of libraries that bring a transport of their own.
	"github.com/google/go-containerregistry/pkg/crane":         {"": "use pkg/backend/registry"},
	"github.com/google/go-containerregistry/pkg/gcrane":        {"": "use pkg/backend/registry"},
	"github.com/google/go-containerregistry/pkg/v1/google":     {"": "use pkg/backend/registry"},
	"golang.org/x/oauth2/google":                               {"FindDefaultCredentials": "it asks the machine past the transport", "DefaultClient": "it asks the machine past the transport", "DefaultTokenSource": "it asks the machine past the transport", "FindDefaultCredentialsWithParams": "it asks the machine past the transport", "ComputeTokenSource": "it asks the machine past the transport"},
	"gocloud.dev/gcp":                                          {"DefaultCredentials": "it asks the machine past the transport", "DefaultTransport": "take a RoundTripper"},
	"gocloud.dev/blob":                                         {"OpenBucket": "it opens by URL, with a transport of its own"},
	"cloud.google.com/go/compute/metadata":                     {"": "ask through the transport"},
	"github.com/sigstore/sigstore-go/pkg/tuf":                  {"New": "it fetches with a client of its own; use pkg/backend/tuf", "DefaultClient": "use pkg/backend/tuf"},
	"github.com/sigstore/sigstore-go/pkg/root":                 {"FetchTrustedRoot": "use pkg/backend/tuf", "FetchTrustedRootWithOptions": "use pkg/backend/tuf", "NewLiveTrustedRoot": "use pkg/backend/tuf", "FetchSigningConfig": "use pkg/backend/tuf", "FetchSigningConfigWithOptions": "use pkg/backend/tuf"},
	"github.com/theupdateframework/go-tuf/v2/metadata/updater": {"": "it fetches with a client of its own; use pkg/backend/tuf"},
	"github.com/theupdateframework/go-tuf/v2/metadata/fetcher": {"": "use pkg/backend/tuf"},
	"github.com/sigstore/rekor/pkg/client":                     {"": "use pkg/backend/rekorv1"},
	"github.com/sigstore/rekor-tiles/v2/pkg/client/write":      {"": "it cannot be given a transport; see pkg/produce/sign"},
	"github.com/sigstore/rekor-tiles/v2/pkg/client/read":       {"": "it cannot be given a transport"},
}

// needed lists calls of libraries that reach the network, and what must be
// among their arguments for them to do so through the transport: an option, or
// a field of the struct that they are given.
var needed = map[string]map[string][]string{
	"github.com/google/go-containerregistry/pkg/v1/remote": {
		"Image": {"WithTransport"}, "Index": {"WithTransport"}, "Get": {"WithTransport"}, "Head": {"WithTransport"}, "Layer": {"WithTransport"},
		"List": {"WithTransport"}, "Catalog": {"WithTransport"}, "Referrers": {"WithTransport"}, "Write": {"WithTransport"}, "WriteIndex": {"WithTransport"},
		"WriteLayer": {"WithTransport"}, "Push": {"WithTransport"}, "Put": {"WithTransport"}, "Tag": {"WithTransport"}, "Delete": {"WithTransport"},
		"MultiWrite": {"WithTransport"}, "NewPusher": {"WithTransport"}, "NewPuller": {"WithTransport"}, "CheckPushPermission": {"transport"},
	},
	"cloud.google.com/go/storage":                                     {"NewClient": {"WithHTTPClient"}, "NewGRPCClient": {"never"}},
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp": {"New": {"WithHTTPClient"}},
	"github.com/sigstore/sigstore-go/pkg/sign":                        {"NewFulcio": {"Transport"}, "NewTimestampAuthority": {"Transport"}, "NewRekor": {"ClientV2"}},
}

// tunnels are the files that connect others, with the reason why no transport
// can do that.
var tunnels = map[string]string{
	"pkg/pipeline/doctor/attack/attack_linux.go": "what a malicious step dials: a listener of this machine, past everything that would stop it",
	"pkg/produce/sandbox/proxy.go":               "a step's own connection, to hosts that it declared: no request of ours, and its addresses are judged where it dials",
}

// transports refuses requests that go past the transport: a client, a
// connection or a name lookup of one's own, and library calls that are not
// given ours.
func transports(tr *tree) (refusals []string) {
	for _, s := range tr.product() {
		if s.room == oneTransport || tunnels[s.path] != "" {
			continue
		}
		for _, local := range sorted(s.imports) {
			if out, ok := ways[s.imports[local]][""]; ok {
				refusals = append(refusals, fmt.Sprintf("%s imports %s: it goes past %s (%s)", s.path, s.imports[local], oneTransport, out))
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if n == nil {
				return false
			}
			refusals = append(refusals, ownWay(tr, s, n)...)
			refusals = append(refusals, withoutOurs(tr, s, n)...)
			return true
		})
	}
	return slices.Compact(refusals)
}

// ownWay refuses one use of a symbol. A type is refused where a value of it is
// made, not where one is taken.
func ownWay(tr *tree, s *source, n ast.Node) []string {
	var used ast.Node
	switch n := n.(type) {
	case *ast.CompositeLit: // a literal of a client
		used = n.Type
	case *ast.ValueSpec: // a variable of that type
		used = n.Type
	case *ast.CallExpr: // a call, or new
		used = n.Fun
		if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "new" && len(n.Args) == 1 {
			used = n.Args[0]
		}
	case *ast.SelectorExpr: // what is there already, wherever it is named
		if where, symbol := s.selected(n); where != "" && (strings.HasPrefix(symbol, "Default") || where == "net/http" && symbol == "ProxyFromEnvironment") {
			used = n
		}
	}
	if used == nil {
		return nil
	}
	where, symbol := s.selected(used)
	out, ok := ways[where][symbol]
	if where == "" || !ok {
		return nil
	}
	return []string{fmt.Sprintf("%s uses %s.%s: no request goes past %s (%s)", tr.at(used.Pos()), packageName(where), symbol, oneTransport, out)}
}

// withoutOurs refuses one library call that is not given a transport. Options
// that were collected before the call must get theirs in the same file.
func withoutOurs(tr *tree, s *source, n ast.Node) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	where, symbol := s.selected(call.Fun)
	want, ok := needed[where][symbol]
	given := func(w string) bool {
		return slices.ContainsFunc(call.Args, func(a ast.Expr) bool { return mentions(a, w) }) || call.Ellipsis.IsValid() && mentions(s.file, w)
	}
	if where == "" || !ok || slices.ContainsFunc(want, given) {
		return nil
	}
	return []string{fmt.Sprintf("%s calls %s.%s without %s: it would use a transport of its own (give it ours)",
		tr.at(n.Pos()), packageName(where), symbol, strings.Join(want, " or "))}
}

// mentions looks for a name in a node: pkg.Name(…) or Name: value.
func mentions(in ast.Node, name string) (found bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == name
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok {
				found = found || id.Name == name
			}
		}
		return !found
	})
	return found
}

func transportSeeds() []seed {
	const room = "pkg/seed/seed.go"
	file := func(imports, body string) map[string]string {
		return one(room, "package seed\nimport (\n"+imports+"\n)\n"+body+"\n")
	}
	httpPkg := `"net/http"`
	fine := file(httpPkg, "func f(rt http.RoundTripper, c *http.Client) (*http.Request, error) { return http.NewRequest(http.MethodGet, \"\", nil) }")
	remote := `"github.com/google/go-containerregistry/pkg/v1/remote"`
	sigstore := `"github.com/sigstore/sigstore-go/pkg/sign"`
	return []seed{
		{"transports", "http.Get", file(httpPkg, `func f() { _, _ = http.Get("x") }`), fine},
		{"transports", "http.DefaultClient", file(httpPkg, `func f() { _, _ = http.DefaultClient.Do(nil) }`), fine},
		{"transports", "http.DefaultTransport", file(httpPkg, `var rt = http.DefaultTransport`), fine},
		{"transports", "http.Client", file(httpPkg, `func f() *http.Client { return &http.Client{} }`), fine},
		{"transports", "http.Client", file(httpPkg, `func f() *http.Client { return new(http.Client) }`), fine},
		{"transports", "http.Client", file(httpPkg, `func f() { var c http.Client; c.CloseIdleConnections() }`), fine},
		{"transports", "http.Transport", file(httpPkg, `func f() http.RoundTripper { return &http.Transport{} }`), one(oneTransport+"/seed.go", "package transport\nimport \"net/http\"\nfunc f() http.RoundTripper { return &http.Transport{} }\n")},
		{"transports", "net.Dial", file(`"net"`, `func f() { _, _ = net.Dial("tcp", "x") }`), file(`"net"`, `func f() { _, _ = net.Listen("tcp", "x") }`)},
		{"transports", "net.Dialer", file(`"net"`, `func f() net.Dialer { return net.Dialer{} }`), one("pkg/produce/sandbox/proxy.go", "package sandbox\nimport \"net\"\nfunc f() net.Dialer { return net.Dialer{} }\n")},
		{"transports", "pkg/crane", file(`_ "github.com/google/go-containerregistry/pkg/crane"`, ""), file(`_ "github.com/google/go-containerregistry/pkg/v1"`, "")},
		{"transports", "remote.Get", file(remote, `func f() { _, _ = remote.Get(nil) }`), file(remote, `func f() { _, _ = remote.Get(nil, remote.WithTransport(nil)) }`)},
		{"transports", "remote.Get", file(remote, `func f(o []remote.Option) { _, _ = remote.Get(nil, o...) }`), file(remote, `func f(o []remote.Option) { o = append(o, remote.WithTransport(nil)); _, _ = remote.Get(nil, o...) }`)},
		{"transports", "sign.NewFulcio", file(sigstore, `func f() { sign.NewFulcio(&sign.FulcioOptions{}) }`), file(sigstore, `func f() { sign.NewFulcio(&sign.FulcioOptions{Transport: nil}) }`)},
	}
}
