<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use Illuminate\Filesystem\Filesystem;

/** The folder of an application, removed at the end of the test. */
final class Folder
{
    public readonly string $path;

    /** @param array<string, string> $files contents by path */
    public function __construct(array $files)
    {
        $this->path = sys_get_temp_dir() . '/pillion-laravel-' . bin2hex(random_bytes(6));
        $folders = ['app/Tools', 'bootstrap/cache', 'config', 'database', 'storage/framework/cache', 'storage/logs'];
        foreach ([...$folders, 'storage/framework/views', 'vendor/composer'] as $folder) {
            mkdir("$this->path/$folder", 0o700, true);
        }
        foreach ($files as $path => $contents) {
            $this->write($path, $contents);
        }
    }

    public function write(string $path, string $contents): void
    {
        (new Filesystem())->ensureDirectoryExists(dirname("$this->path/$path"));
        file_put_contents("$this->path/$path", $contents);
    }

    public function remove(): void
    {
        (new Filesystem())->deleteDirectory($this->path);
    }
}
