package main

import (
	"fmt"
	"io"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"sigs.k8s.io/yaml"
)

// render3 gives what `helm template rel CHART -n ns --include-crds --kube-version 1.34.0` of Helm 3 prints.
func render3(files []file, values string) (text string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	buffered := []*loader.BufferedFile{}
	for _, f := range files {
		buffered = append(buffered, &loader.BufferedFile{Name: f.name, Data: f.data})
	}
	chart, err := loader.LoadFiles(buffered)
	if err != nil {
		return "", err
	}
	user := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &user); err != nil {
		return "", err
	}
	configuration := &action.Configuration{
		Log:        func(string, ...any) {},
		Releases:   storage.Init(driver.NewMemory()),
		KubeClient: &kubefake.PrintingKubeClient{Out: io.Discard},
	}
	install := action.NewInstall(configuration)
	install.DryRun, install.ClientOnly, install.Replace, install.IncludeCRDs = true, true, true, true
	install.DryRunOption = "true"
	install.ReleaseName, install.Namespace = "rel", "ns"
	install.KubeVersion, err = chartutil.ParseKubeVersion("1.34.0")
	if err != nil {
		return "", err
	}
	if t := chart.Metadata.Type; t != "" && t != "application" {
		return "", fmt.Errorf("%s charts are not installable", t)
	}
	if err := action.CheckDependencies(chart, chart.Metadata.Dependencies); err != nil {
		return "", err
	}
	release, err := install.Run(chart, user)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintln(&out, strings.TrimSpace(release.Manifest))
	for _, hook := range release.Hooks {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return out.String(), nil
}
