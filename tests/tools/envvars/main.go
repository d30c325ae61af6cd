// envvars reads a JSON list of Services from standard input and writes, for each, the environment variables that the kubelet's own package
// makes of it, in its order: a list of lists of NAME=VALUE.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/envvars"
)

func run() error {
	var services []*v1.Service
	if err := json.NewDecoder(os.Stdin).Decode(&services); err != nil {
		return err
	}
	all := make([][]string, 0, len(services))
	for _, service := range services {
		lines := []string{}
		for _, variable := range envvars.FromServices([]*v1.Service{service}) {
			lines = append(lines, variable.Name+"="+variable.Value)
		}
		all = append(all, lines)
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "envvars:", err)
		os.Exit(1)
	}
}
