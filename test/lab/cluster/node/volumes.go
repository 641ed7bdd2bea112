package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
)

// mount puts the volumes of a container into its root directory.
func (c *container) mount(p *pod, root string) error {
	for _, m := range c.VolumeMounts {
		if m.SubPathExpr != "" {
			return fmt.Errorf("%s: this node knows no subPathExpr", m.MountPath)
		}
		at := filepath.Join(root, m.MountPath)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		for _, v := range p.spec.Spec.Volumes {
			if v.Name != m.Name {
				continue
			}
			// A root directory is of one container, so that volumes can be in it. Two
			// containers share none of them.
			if m.SubPath != "" || len(p.spec.Spec.Containers) > 1 {
				return fmt.Errorf("%s: this node knows no subPath, and no volumes of several containers", m.MountPath)
			}
			if err := p.fill(v, at); err != nil {
				return fmt.Errorf("volume %s: %w", v.Name, err)
			}
			if v.HostPath != nil && !m.ReadOnly {
				if err := os.Chmod(at, 0o777); err != nil {
					return err
				}
				c.shared = append(c.shared, [2]string{at, v.HostPath.Path})
			}
		}
	}
	return nil
}

// fill makes a volume.
func (p *pod) fill(v corev1.Volume, at string) error {
	switch {
	case v.HostPath != nil:
		return copyTree(v.HostPath.Path, at)
	case v.EmptyDir != nil:
		if err := os.Mkdir(at, 0o777); err != nil {
			return err
		}
		return os.Chmod(at, 0o777) // as a kubelet does
	case v.ConfigMap != nil:
		return p.project(at, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items}})
	case v.Secret != nil:
		return p.project(at, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items}})
	case v.Projected != nil:
		return p.project(at, v.Projected.Sources...)
	}
	return fmt.Errorf("this node knows no such volume")
}

// project writes files of the API server, and keeps tokens fresh.
func (p *pod) project(at string, sources ...corev1.VolumeProjection) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	renew, err := p.write(at, sources)
	if err != nil || renew == 0 {
		return err
	}
	go func() {
		for {
			select {
			case <-p.ended:
				return
			case <-time.After(renew):
				_, _ = p.write(at, sources) // if it fails, the old token lasts a while
			}
		}
	}()
	return nil
}

// write writes the files into a new directory, and makes the links point there. It
// returns when to do that again, if ever.
func (p *pod) write(at string, sources []corev1.VolumeProjection) (renew time.Duration, err error) {
	files := map[string][]byte{}
	for _, s := range sources {
		some, again, err := p.read(s)
		if err != nil {
			return 0, err
		}
		renew = max(renew, again)
		maps.Copy(files, some)
	}
	dir, err := os.MkdirTemp(at, "..")
	if err != nil {
		return 0, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	for name, body := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return 0, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o444); err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(name, "/")
		if err := os.Symlink(filepath.Join("..data", first), filepath.Join(at, first)); err != nil && !os.IsExist(err) {
			return 0, err
		}
	}
	next := filepath.Join(at, "..data_tmp")
	if err := os.Symlink(filepath.Base(dir), next); err != nil {
		return 0, err
	}
	return renew, os.Rename(next, filepath.Join(at, "..data"))
}

// read is what one source has, by name.
func (p *pod) read(s corev1.VolumeProjection) (files map[string][]byte, renew time.Duration, err error) {
	ctx, files := p.n.connection(), map[string][]byte{}
	in := "/api/v1/namespaces/" + p.spec.Namespace
	switch {
	case s.ConfigMap != nil:
		var m corev1.ConfigMap
		err = p.n.c.Do(ctx, http.MethodGet, in+"/configmaps/"+s.ConfigMap.Name, nil, &m)
		for name, text := range m.Data {
			files[name] = []byte(text)
		}
		maps.Copy(files, m.BinaryData)
		files = chosen(files, s.ConfigMap.Items)
	case s.Secret != nil:
		var m corev1.Secret
		err = p.n.c.Do(ctx, http.MethodGet, in+"/secrets/"+s.Secret.Name, nil, &m)
		files = chosen(m.Data, s.Secret.Items)
	case s.ServiceAccountToken != nil:
		var token string
		if token, renew, err = p.token(ctx, *s.ServiceAccountToken); err == nil {
			files[s.ServiceAccountToken.Path] = []byte(token)
		}
	case s.DownwardAPI != nil:
		for _, i := range s.DownwardAPI.Items {
			var text string
			if text, err = field(p.spec, i.FieldRef.FieldPath); err != nil {
				return nil, 0, err
			}
			files[i.Path] = []byte(text)
		}
	default:
		err = fmt.Errorf("this node knows no such source")
	}
	return files, renew, err
}

// chosen are the items of a source, or all.
func chosen(all map[string][]byte, items []corev1.KeyToPath) map[string][]byte {
	if len(items) == 0 {
		return all
	}
	some := map[string][]byte{}
	for _, i := range items {
		some[i.Path] = all[i.Key]
	}
	return some
}

// token asks for a token of the pod's service account, which ends with the pod.
func (p *pod) token(ctx context.Context, s corev1.ServiceAccountTokenProjection) (string, time.Duration, error) {
	request := authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: s.ExpirationSeconds, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.spec.Name, UID: p.spec.UID},
	}}
	if s.Audience != "" {
		request.Spec.Audiences = []string{s.Audience}
	}
	at := "/api/v1/namespaces/" + p.spec.Namespace + "/serviceaccounts/" + p.spec.Spec.ServiceAccountName + "/token"
	if err := p.n.c.Do(ctx, http.MethodPost, at, request, &request); err != nil {
		return "", 0, err
	}
	return request.Status.Token, time.Until(request.Status.ExpirationTimestamp.Time) * 4 / 5, nil
}

// giveBack copies new files of the directories of this machine back, which no
// process of another container sees before.
func (c *container) giveBack() (err error) {
	for _, dir := range c.shared {
		files, wrong := os.ReadDir(dir[0])
		for err = errors.Join(err, wrong); len(files) > 0; files = files[1:] {
			to := filepath.Join(dir[1], files[0].Name())
			if _, missing := os.Lstat(to); missing == nil || files[0].IsDir() {
				continue
			}
			raw, unread := os.ReadFile(filepath.Join(dir[0], files[0].Name()))
			err = errors.Join(err, unread, os.WriteFile(to, raw, 0o644))
		}
	}
	return err
}

// copyTree copies a directory of this machine. Files that root alone reads are
// given to everybody: a test chose the directory.
func copyTree(from, to string) error { return os.CopyFS(to, os.DirFS(from)) }
