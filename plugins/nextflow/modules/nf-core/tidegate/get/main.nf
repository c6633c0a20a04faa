// Files of one sample by their URLs: takes the place of fetchngs' SRA_FASTQ_FTP, with the same inputs and outputs.
process TIDEGATE_GET {
    tag "$meta.id"
    label 'process_low'
    label 'error_retry'

    conda "${moduleDir}/environment.yml"

    input:
    tuple val(meta), val(fastq)

    output:
    tuple val(meta), path("*fastq.gz"), emit: fastq
    tuple val(meta), path("*md5")     , emit: md5
    path "versions.yml"               , emit: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def args  = task.ext.args ?: ''
    // The archives name places without a scheme.
    def urls  = [fastq].flatten().findAll { it }.collect { url -> url.toString().contains('://') ? url.toString() : "https://${url}" }
    def names = meta.single_end ? ["${meta.id}.fastq.gz"] : ["${meta.id}_1.fastq.gz", "${meta.id}_2.fastq.gz"]
    if (urls.size() < names.size()) {
        error("${meta.id}: ${names.size()} URLs are needed, and there are ${urls.size()}")
    }
    def sums  = [meta.md5_1, meta.md5_2]
    def list  = names.withIndex().collect { name, i ->
        "${urls[i]}\n out=${name}" + (sums[i] ? "\n checksum=md5=${sums[i]}" : '')
    }.join('\n')
    """
    cat <<'END_URLS' > urls.txt
    ${list.replace('\n', '\n    ')}
    END_URLS
    sed -i 's/^    //' urls.txt

    tidegate get \\
        $args \\
        --quiet --checksum md5 --state .tidegate-state \\
        --input-format urls --outdir . urls.txt

    while read -r sum name; do
        printf '%s  %s\\n' "\$sum" "\$name" > "\$name.md5"
    done < md5sums.txt

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        tidegate: \$(tidegate --version | sed 's/^tidegate //')
    END_VERSIONS
    """

    stub:
    def names = meta.single_end ? ["${meta.id}.fastq.gz"] : ["${meta.id}_1.fastq.gz", "${meta.id}_2.fastq.gz"]
    """
    for name in ${names.join(' ')}; do
        echo '' | gzip > "\$name"
        touch "\$name.md5"
    done

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        tidegate: \$(tidegate --version | sed 's/^tidegate //')
    END_VERSIONS
    """
}
