package servers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/servers/process"
)

// apacheAt starts Apache with the files of a directory, listed.
func apacheAt(t *testing.T, root string) string {
	t.Helper()
	program, address, dir := process.Program(t, "apache2", "apache2"), process.Address(t), t.TempDir()
	modules := ""
	for _, name := range []string{"mpm_event", "authz_core", "autoindex", "dir", "mime"} {
		modules += fmt.Sprintf("LoadModule %[1]s_module /usr/lib/apache2/modules/mod_%[1]s.so\n", name)
	}
	config := writeTemporary(t, "apache.conf", fmt.Sprintf(`ServerRoot %[1]q
ServerName localhost
Listen %[2]s
PidFile "%[1]s/pid"
ErrorLog /dev/stderr
%[3]s
User www-data
Group www-data
TypesConfig /dev/null
AddEncoding x-gzip .gz
DocumentRoot %[4]q
<Directory %[4]q>
  Options +Indexes
  Require all granted
</Directory>
`, dir, address, modules, root))
	everybodyReads(t, root)
	process.Start(t, process.Server{Name: "Apache", Version: "2.4", Args: []string{program, "-f", config, "-DFOREGROUND"}, Dir: dir, Ready: address})
	return address
}

// everybodyReads opens the directories above a temporary one, for servers that
// give up being root.
func everybodyReads(t *testing.T, dir string) {
	t.Helper()
	for ; strings.HasPrefix(dir, os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // a directory of this test
			t.Fatal(err)
		}
	}
}

// pythonAt starts the web server of Python's library.
func pythonAt(t *testing.T, root string) string {
	t.Helper()
	address := process.Address(t)
	_, port, _ := strings.Cut(address, ":")
	process.Start(t, process.Server{
		Name: "http.server", Version: "3", Args: []string{process.Program(t, "python3", "python3"), "-m", "http.server", port, "--bind", "127.0.0.1", "--directory", root}, Ready: address,
	})
	return address
}

// goAt starts the web server of Go's library.
func goAt(t *testing.T, root string) string {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(root)))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// writeTemporary writes a temporary file.
func writeTemporary(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
