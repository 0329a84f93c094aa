"""What Spark and pip make of the lines of docs/spark-cluster.md for clusters that are not here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.spark.harness import ROOT, SPARK_SUBMIT
from tests.spark.kubernetes_api import kubernetes_api

PAGE = (ROOT / "docs" / "spark-cluster.md").read_text()
ALONE = "spark.kubernetes.submission.waitAppCompletion false\n"
NO_YARN = """
<configuration>
  <property><name>yarn.resourcemanager.address</name><value>127.0.0.1:1</value></property>
  <property><name>yarn.resourcemanager.connect.max-wait.ms</name><value>1</value></property>
</configuration>
"""


def command(words: str) -> str:
    """The one command of the page's blocks that has these words, with its further lines."""
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
    lines = re.sub(r"\\\n", " ", blocks).splitlines()
    (found,) = [line for line in lines if words in line]
    return found


def submit(typed: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    """Type the command in a shell, in the directory, which has job.py and Spark's settings."""
    (directory / "job.py").touch()
    (directory / "environment.tar.gz").touch()
    return subprocess.run(
        ["bash", "-c", typed],
        cwd=directory,
        env={
            # spark-submit passes it on, in place of the image's
            **{name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"},
            "PATH": os.pathsep.join([str(Path(SPARK_SUBMIT).parent), os.environ["PATH"]]),
            "HOME": str(directory),
            "KUBECONFIG": os.devnull,
            "SPARK_CONF_DIR": str(directory),
            "HADOOP_CONF_DIR": str(directory),
        },
        capture_output=True,
        text=True,
    )


def test_kubernetes_is_asked_for_a_driver_with_the_image_and_the_checkpoints(
    tmp_path: Path,
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(ALONE)
    with kubernetes_api() as (url, asked):
        typed = command("--master k8s://").replace("https://kubernetes.example.com:6443", url)
        ended = submit(typed, tmp_path)
    assert ended.returncode == 0, ended.stderr
    (pod,) = [made.body["spec"] for made in asked if made.path == "/api/v1/namespaces/etl/pods"]
    (container,) = pod["containers"]
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert (
        pod["serviceAccountName"],
        container["image"],
        container["args"][0],
        container["args"][-1],
        [(claim, mounts[name]) for name, claim in claims.items()],
        "PYSPARK_PYTHON" in {variable["name"] for variable in container["env"]},
    ) == (
        "spark",
        "registry.example.com/flights:1",
        "driver",
        "local:///opt/job.py",
        [("flights-checkpoints", "/checkpoints")],
        False,
    )


def test_yarn_is_given_the_archive_and_the_python_in_it(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text(NO_YARN)
    typed = command("--master yarn").replace("spark-submit", "spark-submit --verbose", 1)
    printed = submit(typed, tmp_path).stderr
    settings = dict(re.findall(r"^\((spark[^,]*),(.*)\)$", printed, re.MULTILINE))
    assert {name: settings.get(name) for name in settings if "yarn" in name} == {
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": "./environment/bin/python",
        "spark.yarn.dist.archives": f"file://{tmp_path}/environment.tar.gz#environment",
        "spark.yarn.isPython": "true",
    }
    assert settings["spark.submit.deployMode"] == "cluster"
    assert "org.apache.spark.deploy.yarn.YarnClusterApplication" in printed


def test_pip_takes_the_line_of_the_image(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip"]
    wheel = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*wheel, str(tmp_path), str(ROOT)], check=True)
    (line,) = re.findall(r"^RUN (pip install .*)$", PAGE, re.MULTILINE)
    # What it needs is installed here, and nothing may be fetched.
    typed = line.replace("/wheels", str(tmp_path)).replace("pip install", "pip_install")
    here = f'pip_install() {{ "{sys.executable}" -m pip install --no-index --dry-run "$@"; }}\n'
    ended = subprocess.run(["bash", "-c", here + typed], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_spark_is_where_the_image_says() -> None:
    (home,) = re.findall(r"SPARK_HOME=/usr/local/(\S+)", PAGE)
    (python,) = re.findall(r"^FROM python:([\d.]+)-slim", PAGE, re.MULTILINE)
    packages = Path(pyspark.__file__).parents[1]
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert home == f"lib/python{python}/site-packages/pyspark"
    assert Path(pyspark.__file__).parent == packages / "pyspark"
    assert packages.relative_to(sys.prefix) == Path("lib", here, "site-packages")


@pytest.mark.parametrize("name", ["Master", "Worker"])
def test_the_classes_of_the_page_take_its_options(name: str) -> None:
    """`--help` of the class names every option of the page's command."""
    typed = command(f"deploy.{name.lower()}.{name} ")
    options = re.findall(r" (--[a-z-]+)", typed)
    spark_class = Path(SPARK_SUBMIT).with_name("spark-class")
    words = [str(spark_class), f"org.apache.spark.deploy.{name.lower()}.{name}", "--help"]
    printed = subprocess.run(words, capture_output=True, text=True).stderr
    assert [option for option in options if option not in printed] == []
    assert options != []
