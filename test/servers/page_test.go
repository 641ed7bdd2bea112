package servers

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// row is what a test saw of one server: a line of docs/servers.md.
type row struct {
	Kind    string // one of kinds()
	Server  string // as its makers call it, and how it is set up
	Version string
	Works   string // what was tried, and worked
	Lacks   string
	Does    string // what Waybill, or its user, does about it
}

// kinds are the tables of the page, in order.
func kinds() []string {
	return []string{"Registries", "Buckets", "Web places", "Identity", "Telemetry", "Clients", "Faults"}
}

const pagePath = "../../docs/servers.md"

const pageHead = `# Servers

The servers and clients that Waybill is tested with. Each is started on one machine, as its makers ship it, and a release is built,
staged, published, verified and attacked with it. ` + "`make servers`" + ` runs these tests and compares this page with what they saw;
` + "`WAYBILL_GOLDEN=write make servers`" + ` writes it.

"all" means: stage, ask the gate as a command and as a service, release, verify, promote by a plan, refuse the six attacks of
` + "`make demo`" + `, amend and withdraw.
`

const pageFoot = `
## To reach a registry

- **Passwords and tokens** are read from the Docker configuration (` + "`~/.docker/config.json`, or the directory in `DOCKER_CONFIG`" + `): what
  ` + "`docker login`" + ` writes there, and credential helpers. An expired token is renewed.
- **An authority of your own**: ` + "`SSL_CERT_FILE`" + ` names a file with its certificate, in PEM.
- **nginx in front of a registry** needs ` + "`client_max_body_size 0`" + `. If it serves the registry below another path, it must rewrite
  the headers ` + "`Location`" + ` (uploads) and ` + "`Link`" + ` (long lists of tags); a list that continues elsewhere is refused as unavailable.
- **Without the referrers API** the list of evidence is kept under a tag, ` + "`sha256-…`" + `, which cannot be written conditionally: of two programs
  that add evidence to one image at the same time, one can lose it. Each reads the list back, and says so; run it again.
- **Where deleting is off** every command of a release works: withdrawing and amending write a new manifest and delete nothing.
`

// page has the rows that tests saw; mu owns seen.
type page struct {
	mu   sync.Mutex
	seen []row
}

// saw records what a test saw. The page is compared when all tests have ended.
func saw(t testing.TB, r row) {
	t.Helper()
	if !slices.Contains(kinds(), r.Kind) || strings.ContainsAny(r.Server+r.Version+r.Works+r.Lacks+r.Does, "\n|") {
		t.Fatalf("not a row: %+v", r)
	}
	suite.page.mu.Lock()
	defer suite.page.mu.Unlock()
	suite.page.seen = append(suite.page.seen, r)
}

// line is the row as the page shows it.
func (r row) line() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", r.Server, r.Version, cmp.Or(r.Works, "all"), cmp.Or(r.Lacks, "nothing"), r.Does)
}

func (r row) key() string { return r.Kind + "|" + r.Server }

// compare compares the page with the rows that were seen, or writes it. If not
// the whole suite ran, the page may have other rows, too.
func (p *page) compare(whole bool) error {
	old, err := os.ReadFile(filepath.FromSlash(pagePath))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	rows := slices.Clone(p.seen)
	if !whole {
		for _, r := range parsePage(string(old)) {
			if !slices.ContainsFunc(rows, func(s row) bool { return s.key() == r.key() }) {
				rows = append(rows, r)
			}
		}
	}
	page := writePage(rows)
	if page == string(old) {
		return nil
	}
	if os.Getenv("WAYBILL_GOLDEN") == "write" {
		return os.WriteFile(filepath.FromSlash(pagePath), []byte(page), 0o644)
	}
	return fmt.Errorf("docs/servers.md is not what these tests saw; WAYBILL_GOLDEN=write writes it:\n%s", difference(string(old), page))
}

// difference has the lines that only one of two texts has.
func difference(old, now string) string {
	var out []string
	only := func(sign, a, b string) {
		for l := range strings.Lines(a) {
			if !slices.Contains(strings.Split(b, "\n"), strings.TrimSuffix(l, "\n")) {
				out = append(out, sign+l)
			}
		}
	}
	only("-", old, now)
	only("+", now, old)
	return strings.Join(out, "")
}

func writePage(rows []row) string {
	b := &strings.Builder{}
	b.WriteString(pageHead)
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.Server, b.Server) })
	for _, kind := range kinds() {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.Kind == kind }) {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n| server | version | what works | what it lacks | what to know |\n|---|---|---|---|---|\n", kind)
		for _, r := range rows {
			if r.Kind == kind {
				fmt.Fprintln(b, r.line())
			}
		}
	}
	b.WriteString(pageFoot)
	return b.String()
}

func parsePage(text string) (rows []row) {
	kind := ""
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		if name, ok := strings.CutPrefix(l, "## "); ok {
			kind = name
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(l, "| "), " |"), " | ")
		if kind != "" && len(cells) == 5 && cells[0] != "server" {
			rows = append(rows, row{kind, cells[0], cells[1], cells[2], cells[3], cells[4]})
		}
	}
	return rows
}

// TestPage writes rows and reads them again, with no server.
func TestPage(t *testing.T) {
	rows := []row{
		{"Registries", "a", "1", "all", "nothing", ""}, {"Registries", "b", "2", "stage", "tags", "says so"}, {"Faults", "c", "3", "all", "nothing", "x"},
	}
	if got := parsePage(writePage(slices.Clone(rows))); !slices.Equal(got, rows) {
		t.Errorf("got %+v, want %+v", got, rows)
	}
}
