// All files of a list of accessions in one run, which finds by itself how many connections the archives bear.
process TIDEGATE_FETCH {
    tag "$meta.id"
    label 'process_medium'

    conda "${moduleDir}/environment.yml"

    input:
    tuple val(meta), path(ids)
    val pipeline

    output:
    tuple val(meta), path("fastq/*.fastq.gz")  , emit: fastq
    tuple val(meta), path("fastq/*.md5")       , emit: md5
    tuple val(meta), path("samplesheet.csv")   , emit: samplesheet
    tuple val(meta), path("runs.tsv")          , emit: runs
    path "versions.yml"                        , emit: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def args = task.ext.args ?: ''
    """
    tidegate get \\
        $args \\
        --quiet --format fastq --name fetchngs --samplesheet ${pipeline ?: 'generic'} --state .tidegate-state \\
        --outdir fastq $ids

    mv fastq/samplesheet.csv fastq/runs.tsv .
    while read -r sum name; do
        printf '%s  %s\\n' "\$sum" "\$name" > "fastq/\$name.md5"
    done < fastq/md5sums.txt

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        tidegate: \$(tidegate --version | sed 's/^tidegate //')
    END_VERSIONS
    """

    stub:
    """
    mkdir fastq
    echo '' | gzip > fastq/SRX0_SRR0_1.fastq.gz
    touch fastq/SRX0_SRR0_1.fastq.gz.md5 samplesheet.csv runs.tsv

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        tidegate: \$(tidegate --version | sed 's/^tidegate //')
    END_VERSIONS
    """
}
