// One broker of franz-go's kfake, as a process.
//
// Usage: kfake [NAME=VALUE...]
//
// Each NAME is a broker setting of Kafka's. data-dir=PATH keeps everything in files that are synced
// before an answer; without it, it is in memory. It prints its address when clients can connect, and
// ends when its input does.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	options := []kfake.Opt{kfake.NumBrokers(1)}
	settings := map[string]string{}
	for _, word := range os.Args[1:] {
		name, value, isSetting := strings.Cut(word, "=")
		switch {
		case !isSetting:
			fmt.Fprintf(os.Stderr, "kfake: %q is not NAME=VALUE\n", word)
			os.Exit(2)
		case name == "data-dir":
			options = append(options, kfake.DataDir(value), kfake.SyncWrites())
		default:
			settings[name] = value
		}
	}
	cluster, err := kfake.NewCluster(append(options, kfake.BrokerConfigs(settings))...)
	if err != nil {
		fmt.Fprintf(os.Stderr, "kfake: %v\n", err)
		os.Exit(1)
	}
	fmt.Println(cluster.ListenAddrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
	cluster.Close()
}
